(** When is a network fair because of its weights alone? docs/theory.md §8, `verification/structural.py`.

    If twins give the first layer the same values, they give the same outputs. The same holds behind any layer, and for
    outputs that differing neurons reach through weights of 0 only. Activations may be any functions at all. *)

From BornFair Require Import FiniteSums.

Section Structural.

Variable R : ring.
Add Ring numbers : (laws R).

(** A view of the free vector u is A u + a. Twins are two views of one u. *)
Record view (input column : Type) := { matrix : input -> column -> R; offset : input -> R }.
Arguments matrix {input column}.
Arguments offset {input column}.

Definition seen {input column : Type} (columns : list column) (v : view input column) (u : column -> R) : input -> R :=
  fun i => sum columns (fun f => matrix v i f * u f) + offset v i.

(** * The first layer *)

Section FirstLayer.

Variables neuron input : Type.
Variable neurons : list neuron.
Variable inputs : list input.
Variable weight : neuron -> input -> R.
Variable bias : neuron -> R.

Definition first_layer (x : input -> R) : list R :=
  map (fun n => sum inputs (fun i => weight n i * x i) + bias n) neurons.

(** All rests on this: where W (x − y) = 0, the first layer is the same. *)
Lemma differences_cancel (x y : input -> R) :
  (forall n, sum inputs (fun i => weight n i * (x i - y i)) = 0) -> first_layer x = first_layer y.
Proof.
  intro cancelled. apply map_ext. intro n. f_equal.
  transitivity (sum inputs (fun i => weight n i * (x i - y i)) + sum inputs (fun i => weight n i * y i)).
  - rewrite <- sum_add. apply sum_ext. intro i. ring.
  - rewrite cancelled. ring.
Qed.

Variable column : Type.
Variable columns : list column.

(** What neuron n makes of the difference of two views is 0: W (A − B) = 0 and W (a − b) = 0. *)
Definition cancel (n : neuron) (v w : view input column) : Prop :=
  (forall f, In f columns -> sum inputs (fun i => weight n i * (matrix v i f - matrix w i f)) = 0) /\
  sum inputs (fun i => weight n i * (offset v i - offset w i)) = 0.

Lemma cancel_for_everybody (n : neuron) (v w : view input column) (u : column -> R) :
  cancel n v w -> sum inputs (fun i => weight n i * (seen columns v u i - seen columns w u i)) = 0.
Proof.
  intros [matrices offsets]. unfold seen.
  transitivity (sum columns (fun f => u f * sum inputs (fun i => weight n i * (matrix v i f - matrix w i f)))
                + sum inputs (fun i => weight n i * (offset v i - offset w i))).
  - rewrite (sum_ext columns (fun f => u f * _)
      (fun f => sum inputs (fun i => u f * (weight n i * (matrix v i f - matrix w i f)))))
      by (intro f; symmetry; apply sum_scaled).
    rewrite sum_swap, <- sum_add. apply sum_ext. intro i.
    rewrite (sum_ext columns (fun f => u f * _)
      (fun f => weight n i * (matrix v i f * u f - matrix w i f * u f))) by (intro f; ring).
    rewrite sum_scaled, sum_sub. ring.
  - rewrite offsets, sum_of_zeros; [ring|]. intros f found. rewrite matrices by exact found. ring.
Qed.

(** The structural check: its conditions do not mention u, so it holds for every u whatsoever. *)
Theorem structural_check_is_sound (v w : view input column) :
  (forall n, cancel n v w) ->
  forall (u : column -> R) (outputs : Type) (behind : list R -> outputs),
    behind (first_layer (seen columns v u)) = behind (first_layer (seen columns w u)).
Proof.
  intros same u outputs behind. f_equal. apply differences_cancel. intro n. now apply cancel_for_everybody.
Qed.

(** Zero weights on whatever differs: also where an input takes every value of a band, or one that is not listed. *)
Theorem zero_weights_are_sound (x y : input -> R) :
  (forall n i, In i inputs -> weight n i = 0 \/ x i = y i) ->
  forall (outputs : Type) (behind : list R -> outputs), behind (first_layer x) = behind (first_layer y).
Proof.
  intros unread outputs behind. f_equal. apply differences_cancel. intro n. apply sum_of_zeros. intros i found.
  destruct (unread n i found) as [none | same]; [rewrite none|rewrite same]; ring.
Qed.

(** Feature by feature, as proof/checker.py has it: what each feature adds to each neuron is the same for twins. *)
Theorem feature_by_feature_is_sound (feature : Type) (features : list feature) (places : feature -> list input)
    (x y : input -> R) :
  Permutation (flat_map places features) inputs ->
  (forall n f, In f features -> sum (places f) (fun i => weight n i * (x i - y i)) = 0) ->
  forall (outputs : Type) (behind : list R -> outputs), behind (first_layer x) = behind (first_layer y).
Proof.
  intros all_inputs each outputs behind. f_equal. apply differences_cancel. intro n.
  rewrite <- (sum_permuted _ _ _ all_inputs). clear all_inputs.
  induction features as [|f others IH]; simpl; [reflexivity|].
  assert (apart : forall (here there : list input) (g : input -> R), sum (here ++ there) g = sum here g + sum there g).
  { induction here as [|i here IHhere]; intros; simpl; [|rewrite IHhere]; ring. }
  rewrite apart, each by now left. rewrite IH; [ring|]. intros m f' found. apply each. now right.
Qed.

End FirstLayer.

(** * Any layer *)

(** Neurons of a layer are counted from 0, and a layer's values are a function of that count. *)
Definition values : Type := nat -> R.

Record layer := {
  width : nat; (* of what it reads *)
  weights : nat -> nat -> R; (* of a neuron, on an input *)
  biases : nat -> R;
  activation : nat -> R -> R (* any function, of each neuron its own *)
}.

Definition read (l : layer) : list nat := seq 0 (width l).

(** The values behind a layer. *)
Definition through (l : layer) (x : values) : values :=
  fun n => activation l n (sum (read l) (fun i => weights l n i * x i) + biases l n).

Fixpoint outputs (layers : list layer) (x : values) : values :=
  match layers with
  | [] => x
  | first :: behind => outputs behind (through first x)
  end.

Lemma outputs_of_both (front back : list layer) (x : values) :
  outputs (front ++ back) x = outputs back (outputs front x).
Proof. revert x. induction front as [|first behind IH]; simpl; auto. Qed.

(** Composition (Lemma 3.2): what does not depend on s in front does not depend on it behind. *)
Theorem composition (front back : list layer) (x y : values) :
  (forall n, outputs front x n = outputs front y n) ->
  forall n, outputs (front ++ back) x n = outputs (front ++ back) y n.
Proof.
  rewrite !outputs_of_both. generalize (outputs front x) (outputs front y). clear x y.
  induction back as [|first behind IH]; simpl; intros x y same; [exact same|].
  apply IH. intro n. unfold through. do 2 f_equal. apply sum_ext. intro i. now rewrite same.
Qed.

(** A flag says that a neuron has the same value for twins. A neuron is flagged when it reads every neuron that is not
    flagged with weight 0. *)
Definition flags : Type := nat -> bool.
Variable is_zero : R -> bool.
Hypothesis is_zero_says : forall r, is_zero r = true -> r = 0.
Hypothesis zero_is_seen : is_zero 0 = true.

Definition next_flags (l : layer) (same : flags) : flags :=
  fun n => forallb (fun i => same i || is_zero (weights l n i)) (read l).

Fixpoint propagated (layers : list layer) (same : flags) : flags :=
  match layers with
  | [] => same
  | first :: behind => propagated behind (next_flags first same)
  end.

(** Flags are right about two inputs. *)
Definition right (same : flags) (x y : values) : Prop := forall n, same n = true -> x n = y n.

Lemma next_flags_are_right (l : layer) (same : flags) (x y : values) :
  right same x y -> right (next_flags l same) (through l x) (through l y).
Proof.
  intros agree n flagged. unfold through. do 2 f_equal. apply sum_ext_in. intros i found.
  apply forallb_forall with (x := i) in flagged; [|exact found].
  apply orb_true_iff in flagged. destruct flagged as [same_input | unread].
  - now rewrite agree.
  - apply is_zero_says in unread. rewrite unread. ring.
Qed.

Theorem propagation_is_sound (layers : list layer) (same : flags) (x y : values) :
  right same x y -> right (propagated layers same) (outputs layers x) (outputs layers y).
Proof.
  revert same x y. induction layers as [|first behind IH]; simpl; intros same x y agree; [exact agree|].
  now apply IH, next_flags_are_right.
Qed.

(** However the flags behind some layer came about, by bounds for instance: if they are right, so are those behind. *)
Theorem sound_from_any_layer (front back : list layer) (same : flags) (x y : values) :
  right same (outputs front x) (outputs front y) ->
  right (propagated back same) (outputs (front ++ back) x) (outputs (front ++ back) y).
Proof. intro agree. rewrite !outputs_of_both. now apply propagation_is_sound. Qed.

(** Input i reaches output o through weights that are not 0. *)
Fixpoint reaches (layers : list layer) (i o : nat) : Prop :=
  match layers with
  | [] => i = o
  | first :: behind => exists n, In i (read first) /\ weights first n i <> 0 /\ reaches behind n o
  end.

(** No flag is lost without a reason: an output that is not flagged is reached by an input that is not. *)
Lemma not_flagged_is_reached (layers : list layer) (same : flags) (o : nat) :
  propagated layers same o = false -> exists i, same i = false /\ reaches layers i o.
Proof.
  revert same. induction layers as [|first behind IH]; simpl; intros same lost; [eauto|].
  apply IH in lost. destruct lost as [n [not_flagged reached]]. unfold next_flags in not_flagged.
  assert (found : exists i, In i (read first) /\ same i || is_zero (weights first n i) = false).
  { clear reached. induction (read first) as [|i others IHothers]; simpl in *; [discriminate|].
    apply andb_false_iff in not_flagged. destruct not_flagged as [here | later]; [eauto|].
    destruct (IHothers later) as [j [place told]]. eauto. }
  destruct found as [i [place told]]. apply orb_false_iff in told. destruct told as [differs read_by].
  exists i. split; [exact differs|]. exists n. repeat split; auto.
  intro none. rewrite none, zero_is_seen in read_by. discriminate.
Qed.

(** A neuron all of whose ways to an output have a weight of 0 does not matter to it. *)
Theorem unreached_outputs_are_alike (layers : list layer) (same : flags) (x y : values) (o : nat) :
  right same x y -> (forall i, same i = false -> ~ reaches layers i o) -> outputs layers x o = outputs layers y o.
Proof.
  intros agree unreached. apply (propagation_is_sound layers same x y agree).
  destruct (propagated layers same o) eqn:flag; [reflexivity|exfalso].
  apply not_flagged_is_reached in flag. destruct flag as [i [differs way]]. now apply (unreached i).
Qed.

(** The whole check: the first layer is flagged where the weights on what differs between two views cancel, the layers
    behind it by propagation. *)
Definition cancelling (first : layer) (columns : list nat) (v w : view nat nat) : flags := fun n =>
  forallb (fun f => is_zero (sum (read first) (fun i => weights first n i * (matrix v i f - matrix w i f)))) columns
  && is_zero (sum (read first) (fun i => weights first n i * (offset v i - offset w i))).

Lemma cancelling_is_right (first : layer) (columns : list nat) (v w : view nat nat) (u : values) :
  right (cancelling first columns v w) (through first (seen columns v u)) (through first (seen columns w u)).
Proof.
  intros n flagged. apply andb_true_iff in flagged. destruct flagged as [matrices offsets].
  assert (none : sum (read first) (fun i => weights first n i * (seen columns v u i - seen columns w u i)) = 0).
  { apply cancel_for_everybody. split; [|now apply is_zero_says].
    intros f found. apply is_zero_says. now apply (proj1 (forallb_forall _ _) matrices). }
  (* A layer of this one neuron. *)
  pose proof (differences_cancel unit nat [tt] (read first) (fun _ => weights first n) (fun _ => biases first n)
    _ _ (fun _ => none)) as same.
  injection same as same. unfold through. now rewrite same.
Qed.

Theorem check_at_any_layer_is_sound (first : layer) (behind : list layer) (columns : list nat) (v w : view nat nat)
    (results : list nat) :
  forallb (propagated behind (cancelling first columns v w)) results = true ->
  forall (u : values) (decision : Type) (decide : list R -> decision),
    decide (map (outputs (first :: behind) (seen columns v u)) results)
    = decide (map (outputs (first :: behind) (seen columns w u)) results).
Proof.
  intros flagged u decision decide. f_equal. apply map_ext_in. intros o found.
  apply (propagation_is_sound behind _ _ _ (cancelling_is_right first columns v w u)).
  now apply (proj1 (forallb_forall _ _) flagged).
Qed.

End Structural.
