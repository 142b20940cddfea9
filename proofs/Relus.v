(** Which more neurons are the same for twins? docs/theory.md §1 and §8, `verification/structural.py`,
    `proof/checker.py`.

    Hidden ReLUs that are never active, and weights that cancel because the neurons they read are one function up to a
    factor. Both need signs: they are proven for any ring with signs, and the rationals are one. *)

From Coq Require Import QArith Qcanon Arith.
From BornFair Require Import FiniteSums Structural.
Open Scope number_scope.

Section Relus.

Variable R : ring.
Add Ring numbers : (laws R).

Notation layer := (layer R).
Notation values := (values R).

Variable is_zero : R -> bool.
Hypothesis is_zero_says : forall r, is_zero r = true -> r = 0.

(** * Neurons that are one function, up to a factor *)

(** The activation keeps the factor c: a ReLU keeps every positive one, and any function keeps 1. *)
Definition keeps (f : R -> R) (c : R) : Prop := forall z, f (c * z) = c * f z.

Lemma everything_keeps_one (f : R -> R) : keeps f 1.
Proof. intro z. replace (1 * z) with z by ring. ring. Qed.

(** Neurons of a layer, each with its factor, and the row of weights and the bias of which theirs are multiples. *)
Record group := { members : list (nat * R); row : nat -> R; base : R }.

(** The neurons of a group are one function up to their factors, in a layer of one activation. *)
Definition one_function (l : layer) (f : R -> R) (g : group) : Prop :=
  forall i c, In (i, c) (members g) ->
    (forall j, In j (read R l) -> weights R l i j = c * row g j) /\ biases R l i = c * base g /\ keeps f c.

Definition shares (l : layer) (f : R -> R) : Prop := forall n z, activation R l n z = f z.

(** What a neuron behind reads from a group is 0 for every input of the layer, if its weights times the factors add up
    to 0. *)
Lemma cancelling_group_adds_nothing (l : layer) (f : R -> R) (g : group) (weight : nat -> R) (x : values) :
  shares l f -> one_function l f g -> sum (members g) (fun m => weight (fst m) * snd m) = 0 ->
  sum (map fst (members g)) (fun i => weight i * through R l x i) = 0.
Proof.
  intros shared one cancelled. rewrite sum_of_map.
  set (h := f (sum (read R l) (fun j => row g j * x j) + base g)).
  rewrite (sum_ext_in _ _ (fun m => h * (weight (fst m) * snd m))).
  - rewrite sum_scaled, cancelled. ring.
  - intros [i c] found. simpl. destruct (one i c found) as [rows [bias scales]].
    assert (value : through R l x i = c * h).
    { unfold through, h. rewrite shared, <- scales. f_equal. rewrite bias.
      rewrite (sum_ext_in _ _ (fun j => c * (row g j * x j))).
      - rewrite sum_scaled. ring.
      - intros j place. rewrite rows by exact place. ring. }
    rewrite value. ring.
Qed.

(** * Neurons that are never active *)

(** Signs: some numbers are not above 0, some not below it. *)
Variables not_above not_below : R -> bool.
Hypothesis zero_is_not_above : not_above 0 = true.
Hypothesis sums_are_not_above : forall a b, not_above a = true -> not_above b = true -> not_above (a + b) = true.
Hypothesis products_are_not_above : forall a b, not_above a = true -> not_below b = true -> not_above (a * b) = true.

(** A ReLU gives 0 for what is not above 0, and nothing below it. *)
Definition dies (f : R -> R) : Prop :=
  (forall z, not_above z = true -> f z = 0) /\ forall z, not_below (f z) = true.

Definition never_active (l : layer) (n : nat) : bool :=
  forallb (fun i => not_above (weights R l n i)) (read R l) && not_above (biases R l n).

Lemma never_active_gives_zero (l : layer) (f : R -> R) (n : nat) (x : values) :
  shares l f -> dies f -> never_active l n = true -> (forall i, not_below (x i) = true) -> through R l x n = 0.
Proof.
  intros shared [off _] never fed. apply andb_true_iff in never. destruct never as [rows bias].
  unfold through. rewrite shared. apply off, sums_are_not_above; [|exact bias].
  induction (read R l) as [|i others IH]; simpl in *; [exact zero_is_not_above|].
  apply andb_true_iff in rows. destruct rows as [here later].
  apply sums_are_not_above; [now apply products_are_not_above|now apply IH].
Qed.

(** * From layer to layer *)

Definition grouped (groups : list group) : list nat := flat_map (fun g => map fst (members g)) groups.

Definition is_grouped (groups : list group) (i : nat) : bool := existsb (Nat.eqb i) (grouped groups).

Lemma is_grouped_says (groups : list group) (i : nat) : is_grouped groups i = true <-> In i (grouped groups).
Proof.
  unfold is_grouped. rewrite existsb_exists. split.
  - intros [j [found same]]. apply Nat.eqb_eq in same. now subst.
  - intro found. exists i. split; [exact found|apply Nat.eqb_refl].
Qed.

(** No neuron is in two groups, or twice in one, and all are read. *)
Definition apart (groups : list group) (l : layer) : Prop :=
  NoDup (grouped groups) /\ forall i, In i (grouped groups) -> In i (read R l).

(** A neuron behind has the same value for twins if what it reads outside the groups is the same or has weight 0, and
    its weights on each group cancel; or if it is never active, which is asked of hidden ReLUs only (`dying`). *)
Definition flags_behind (dying : bool) (groups : list group) (l : layer) (same : flags) : flags := fun n =>
  forallb (fun i => same i || is_zero (weights R l n i) || is_grouped groups i) (read R l)
  && forallb (fun g => is_zero (sum (members g) (fun m => weights R l n (fst m) * snd m))) groups
  || dying && never_active l n.

Lemma sum_of_both (here there : list nat) (w : nat -> R) : sum (here ++ there) w = sum here w + sum there w.
Proof. induction here as [|i others IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma sum_of_groups (groups : list group) (w : nat -> R) :
  (forall g, In g groups -> sum (map fst (members g)) w = 0) -> sum (grouped groups) w = 0.
Proof.
  induction groups as [|g others IH]; simpl; intro none; [reflexivity|].
  rewrite sum_of_both, none by now left. rewrite IH; [ring|]. intros g' found. apply none. now right.
Qed.

Lemma sum_by_groups (groups : list group) (l : layer) (w : nat -> R) :
  apart groups l ->
  sum (read R l) w
  = sum (filter (fun i => negb (is_grouped groups i)) (read R l)) w + sum (grouped groups) w.
Proof.
  intros [once all_read]. rewrite (sum_permuted (grouped groups) (filter (is_grouped groups) (read R l)) w).
  - generalize (read R l). intro places. induction places as [|i others IH]; simpl; [ring|].
    destruct (is_grouped groups i); simpl; rewrite IH; ring.
  - apply NoDup_Permutation; [exact once|apply NoDup_filter, seq_NoDup|].
    intro i. rewrite filter_In, is_grouped_says. split; [|now intros [_ found]]. intro found. now split; [apply all_read|].
Qed.

Lemma flags_behind_are_right (p l : layer) (f : R -> R) (dying : bool) (groups : list group) (same : flags)
    (a b : values) :
  shares p f -> (forall g, In g groups -> one_function p f g) -> apart groups l ->
  (dying = true -> dies f /\ shares l f) ->
  right R same (through R p a) (through R p b) ->
  right R (flags_behind dying groups l same) (through R l (through R p a)) (through R l (through R p b)).
Proof.
  intros shared one placed off agree n flagged. apply orb_true_iff in flagged. destruct flagged as [cancels | never].
  - apply andb_true_iff in cancels. destruct cancels as [alone groups_cancel].
    unfold through at 1 3. do 2 f_equal. rewrite !(sum_by_groups groups l) by exact placed. f_equal.
    + apply sum_ext_in. intros i found. apply filter_In in found. destruct found as [found not_grouped].
      apply forallb_forall with (x := i) in alone; [|exact found].
      destruct (is_grouped groups i); [discriminate|]. rewrite orb_false_r in alone.
      apply orb_true_iff in alone. destruct alone as [same_input | unread]; [now rewrite agree|].
      apply is_zero_says in unread. rewrite unread. ring.
    + rewrite !sum_of_groups; [reflexivity| |]; intros g found;
        apply (cancelling_group_adds_nothing p f); auto; apply is_zero_says;
        now apply (proj1 (forallb_forall _ _) groups_cancel).
  - apply andb_true_iff in never. destruct never as [is_dying never]. destruct (off is_dying) as [dead own].
    rewrite !(never_active_gives_zero l f); auto; intro i; unfold through; rewrite shared; apply (proj2 dead).
Qed.

(** Layers behind the first one, each with the groups of the layer before it. *)
Definition stages : Type := list (list group * layer).

(** Hidden layers have one activation f. That of the last layer may be any. *)
Fixpoint fits (f : R -> R) (p : layer) (behind : stages) : Prop :=
  match behind with
  | [] => True
  | (groups, l) :: rest =>
      shares p f /\ (forall g, In g groups -> one_function p f g) /\ apart groups l /\ fits f l rest
  end.

Fixpoint flags_of (dying : bool) (behind : stages) (same : flags) : flags :=
  match behind with
  | [] => same
  | (groups, l) :: [] => flags_behind false groups l same
  | (groups, l) :: rest => flags_of dying rest (flags_behind dying groups l same)
  end.

Theorem never_active_and_cancelling_are_sound (f : R -> R) (dying : bool) (behind : stages) (p : layer) (same : flags)
    (a b : values) :
  (dying = true -> dies f) -> fits f p behind -> right R same (through R p a) (through R p b) ->
  right R (flags_of dying behind same) (outputs R (p :: map snd behind) a) (outputs R (p :: map snd behind) b).
Proof.
  intro off. revert p same a b. induction behind as [|[groups l] rest IH]; intros p same a b fitting agree; [exact agree|].
  destruct fitting as [shared [one [placed fitting]]]. destruct rest as [|next rest].
  - apply (flags_behind_are_right p l f); auto. discriminate.
  - apply (IH l _ (through R p a) (through R p b)); [exact fitting|].
    apply (flags_behind_are_right p l f); auto.
    intro is_dying. split; [now apply off|]. destruct next as [groups' l']. apply fitting.
Qed.

(** The whole check: weights that cancel in the first layer, then the flags of the layers behind it, then the decision. *)
Theorem check_by_signs_and_groups_is_sound (f : R -> R) (dying : bool) (first : layer) (behind : stages)
    (columns : list nat) (v w : view R nat nat) (results : list nat) :
  (dying = true -> dies f) -> fits f first behind ->
  forallb (flags_of dying behind (cancelling R is_zero first columns v w)) results = true ->
  forall (u : values) (decision : Type) (decide : list R -> decision),
    decide (map (outputs R (first :: map snd behind) (seen R columns v u)) results)
    = decide (map (outputs R (first :: map snd behind) (seen R columns w u)) results).
Proof.
  intros off fitting flagged u decision decide. f_equal. apply map_ext_in. intros o found.
  apply (never_active_and_cancelling_are_sound f dying behind first (cancelling R is_zero first columns v w)); auto.
  - now apply cancelling_is_right.
  - now apply (proj1 (forallb_forall _ _) flagged).
Qed.

End Relus.

(** * ReLU networks over the rationals *)

Definition rationals : ring := {| number := Qc; laws := Qcrt |}.

Definition relu (z : Qc) : Qc := if Qclt_le_dec (Q2Qc 0) z then z else Q2Qc 0.
Definition rational_not_above (z : Qc) : bool := if Qclt_le_dec (Q2Qc 0) z then false else true.
Definition rational_not_below (z : Qc) : bool := if Qclt_le_dec z (Q2Qc 0) then false else true.

Definition rational_is_zero (z : Qc) : bool := Qc_eq_bool z (Q2Qc 0).

Lemma rational_is_zero_says (z : Qc) : rational_is_zero z = true -> z = Q2Qc 0.
Proof. apply Qc_eq_bool_correct. Qed.

Lemma not_above_says (z : Qc) : rational_not_above z = true <-> (z <= Q2Qc 0)%Qc.
Proof.
  unfold rational_not_above. destruct (Qclt_le_dec (Q2Qc 0) z) as [above | below]; split; trivial; try discriminate.
  intro below. now apply Qcle_not_lt in below.
Qed.

Lemma not_below_says (z : Qc) : rational_not_below z = true <-> (Q2Qc 0 <= z)%Qc.
Proof.
  unfold rational_not_below. destruct (Qclt_le_dec z (Q2Qc 0)) as [below | above]; split; trivial; try discriminate.
  intro above. now apply Qcle_not_lt in above.
Qed.

Lemma relu_of_not_above (z : Qc) : (z <= Q2Qc 0)%Qc -> relu z = Q2Qc 0.
Proof.
  intro below. unfold relu. destruct (Qclt_le_dec (Q2Qc 0) z) as [above | _]; [|reflexivity].
  now apply Qcle_not_lt in below.
Qed.

Lemma relu_of_above (z : Qc) : (Q2Qc 0 < z)%Qc -> relu z = z.
Proof.
  intro above. unfold relu. destruct (Qclt_le_dec (Q2Qc 0) z) as [_ | below]; [reflexivity|].
  now apply Qcle_not_lt in below.
Qed.

Lemma relu_dies : dies rationals rational_not_above rational_not_below relu.
Proof.
  split; intro z; [rewrite not_above_says; apply relu_of_not_above|]. apply not_below_says. unfold relu.
  destruct (Qclt_le_dec (Q2Qc 0) z) as [above | _]; [now apply Qclt_le_weak|apply Qcle_refl].
Qed.

Lemma relu_keeps_positive_factors (c : Qc) : (Q2Qc 0 < c)%Qc -> keeps rationals relu c.
Proof.
  intros positive z. change (relu (c * z)%Qc = (c * relu z)%Qc). rewrite Qcmult_comm.
  destruct (Qclt_le_dec (Q2Qc 0) z) as [above | below].
  - rewrite !relu_of_above; [apply Qcmult_comm|exact above|].
    rewrite <- (Qcmult_0_l c). now apply Qcmult_lt_compat_r.
  - rewrite !relu_of_not_above; [now rewrite Qcmult_0_r|exact below|].
    rewrite <- (Qcmult_0_l c). now apply Qcmult_le_compat_r; [|apply Qclt_le_weak].
Qed.

Lemma sums_of_rationals_are_not_above (a b : Qc) :
  rational_not_above a = true -> rational_not_above b = true -> rational_not_above (a + b)%Qc = true.
Proof.
  rewrite !not_above_says. intros here there. rewrite <- (Qcplus_0_l (Q2Qc 0)). now apply Qcplus_le_compat.
Qed.

Lemma products_of_rationals_are_not_above (a b : Qc) :
  rational_not_above a = true -> rational_not_below b = true -> rational_not_above (a * b)%Qc = true.
Proof.
  rewrite !not_above_says, not_below_says. intros here there. rewrite <- (Qcmult_0_l b).
  now apply Qcmult_le_compat_r.
Qed.

(** Hidden neurons are ReLUs, and in each group every neuron is a positive multiple of one row. *)
Fixpoint relu_network (p : layer rationals) (behind : stages rationals) : Prop :=
  match behind with
  | [] => True
  | (groups, l) :: rest =>
      shares rationals p relu
      /\ (forall g, In g groups -> forall i c, In (i, c) (members rationals g) ->
            (forall j, In j (read rationals p) -> weights rationals p i j = (c * row rationals g j)%Qc)
            /\ biases rationals p i = (c * base rationals g)%Qc /\ (Q2Qc 0 < c)%Qc)
      /\ apart rationals groups l /\ relu_network l rest
  end.

Lemma relu_network_fits (p : layer rationals) (behind : stages rationals) :
  relu_network p behind -> fits rationals relu p behind.
Proof.
  revert p. induction behind as [|[groups l] rest IH]; simpl; intros p network; [exact I|].
  destruct network as [shared [multiples [placed others]]]. repeat split; auto; try apply placed.
  - now apply (multiples g H i c).
  - now apply (multiples g H i c).
  - apply relu_keeps_positive_factors. now apply (multiples g H i c).
Qed.

(** ReLUs that are never active and weights that cancel, at any layer of a ReLU network. *)
Theorem relu_check_at_any_layer_is_sound (first : layer rationals) (behind : stages rationals) (columns : list nat)
    (v w : view rationals nat nat) (results : list nat) :
  relu_network first behind ->
  forallb (flags_of rationals rational_is_zero rational_not_above true behind
             (cancelling rationals rational_is_zero first columns v w)) results = true ->
  forall (u : values rationals) (decision : Type) (decide : list Qc -> decision),
    decide (map (outputs rationals (first :: map snd behind) (seen rationals columns v u)) results)
    = decide (map (outputs rationals (first :: map snd behind) (seen rationals columns w u)) results).
Proof.
  intros network flagged u decision decide.
  apply (check_by_signs_and_groups_is_sound rationals rational_is_zero rational_is_zero_says rational_not_above
    rational_not_below eq_refl sums_of_rationals_are_not_above products_of_rationals_are_not_above
    relu true first behind columns v w results); auto using relu_network_fits, relu_dies.
Qed.
