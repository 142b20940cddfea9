(** Does training keep all versions of a person alike? docs/theory.md §7: yes, if it starts with V = 0 and w = w P.

    A group acts on the free vector u: it moves the columns of categories and mirrors numbers around 0. P is its mean.
    Where w = w P for every first-layer row w and V = 0, all versions of a person have one first layer. Training on the
    exact expectation over all versions keeps both, after every step. *)

From BornFair Require Import FiniteSums Optimisers.

Section GroupPreservation.

Variable R : ring.
Add Ring numbers : (laws R).

(** * The group and its mean *)

Variable column : Type.
Variable columns : list column.
Definition vector : Type := column -> R.
Definition dot (w u : vector) : R := sum columns (fun j => w j * u j).

(** Element h shows in column j what u has in column [from h j], or, if j is a number that some elements mirror, that
    number times [sign h j]. *)
Variable element : Type.
Variable group : list element.
Variable from : element -> column -> column.
Variable mirrored : column -> bool.
Variable sign : element -> column -> R.

Definition act (h : element) (u : vector) : vector :=
  fun j => if mirrored j then sign h j * u j else u (from h j).

(** Elements move columns to columns, and leave mirrored numbers where they are. *)
Hypothesis moves_columns : forall h, In h group -> Permutation (map (from h) columns) columns.
Hypothesis moves_alike : forall h j, In h group -> mirrored (from h j) = mirrored j.

(** A group: elements can be composed and undone, and multiplying all of them by one, or undoing all, gives all. *)
Variable compose : element -> element -> element.
Variable undo : element -> element.
Hypothesis composed : forall g h j, from (compose g h) j = from h (from g j).
Hypothesis closed : forall g, In g group -> Permutation (map (compose g) group) group.
Hypothesis undone : forall h j, In h group -> from h (from (undo h) j) = j.
Hypothesis undone_all : Permutation (map undo group) group.

(** As many elements mirror a number as do not. *)
Hypothesis mirrored_half : forall j, mirrored j = true -> sum group (fun h => sign h j) = 0.

(** [share] is 1/|H|. *)
Variable share : R.
Hypothesis shares_of_all : share * sum group (fun _ => 1) = 1.

Definition P (u : vector) : vector := fun j => share * sum group (fun h => act h u j).

Lemma undo_in_group (h : element) : In h group -> In (undo h) group.
Proof. intro found. apply (Permutation_in _ undone_all), in_map, found. Qed.

(** Nothing is seen of a mirrored number. *)
Lemma projection_of_mirrored (u : vector) (j : column) : mirrored j = true -> P u j = 0.
Proof.
  intro is_mirrored. unfold P, act. rewrite is_mirrored.
  rewrite (sum_ext _ _ (fun h => u j * sign h j)) by (intro; ring).
  rewrite sum_scaled, mirrored_half by exact is_mirrored. ring.
Qed.

(** Columns that the group moves to one another show the same: the mean of their orbit. *)
Lemma projection_on_orbit (u : vector) (g : element) (j : column) : In g group -> P u (from g j) = P u j.
Proof.
  intro in_group. destruct (mirrored j) eqn:is_mirrored.
  - rewrite !projection_of_mirrored; [reflexivity|assumption|]. now rewrite moves_alike.
  - unfold P, act. rewrite moves_alike, is_mirrored by exact in_group. f_equal.
    rewrite <- (sum_permuted _ _ (fun h => u (from h j)) (closed g in_group)), sum_of_map.
    apply sum_ext. intro h. now rewrite composed.
Qed.

(** What w = w P says of the coordinates of w, one by one. *)
Definition alike (w : vector) : Prop :=
  (forall j, mirrored j = true -> w j = 0) /\ (forall g j, In g group -> w (from g j) = w j).

(** P is symmetric, so w P is P w. *)
Lemma projection_is_symmetric (w u : vector) : dot w (P u) = dot (P w) u.
Proof.
  assert (moved : forall h, In h group -> dot w (act h u) = dot (fun j =>
            if mirrored j then sign h j * w j else w (from (undo h) j)) u).
  { intros h in_group. unfold dot, act.
    set (fixed := fun j => if mirrored j then w j * (sign h j * u j) else 0).
    rewrite (sum_ext _ _ (fun j => fixed j + if mirrored j then 0 else w j * u (from h j)))
      by (intro j; unfold fixed; destruct (mirrored j); ring).
    rewrite sum_add, <- (sum_permuted _ _ (fun j => if mirrored j then 0 else w j * u (from h j))
      (moves_columns (undo h) (undo_in_group h in_group))), sum_of_map, <- sum_add.
    apply sum_ext. intro j. unfold fixed. rewrite moves_alike by now apply undo_in_group.
    rewrite undone by exact in_group. destruct (mirrored j); ring. }
  transitivity (share * sum group (fun h => dot w (act h u))).
  - unfold dot. rewrite sum_swap, <- sum_scaled. apply sum_ext. intro j. unfold P. rewrite sum_scaled. ring.
  - rewrite (sum_ext_in _ _ _ moved). unfold dot. rewrite sum_swap, <- sum_scaled. apply sum_ext. intro j.
    unfold P, act. destruct (mirrored j).
    + rewrite (sum_ext group (fun i => sign i j * w j * u j) (fun i => (w j * u j) * sign i j)) by (intro; ring).
      rewrite (sum_ext group (fun i => sign i j * w j) (fun i => w j * sign i j)) by (intro; ring).
      rewrite !sum_scaled. ring.
    + rewrite <- (sum_permuted _ _ (fun h => w (from h j)) undone_all), sum_of_map.
      rewrite (sum_ext group _ (fun h => u j * w (from (undo h) j))) by (intro; ring).
      rewrite sum_scaled. ring.
Qed.

Lemma fixed_by_projection_is_alike (w : vector) : (forall j, w j = P w j) <-> alike w.
Proof.
  split.
  - intro fixed. split; intros; rewrite fixed; [now apply projection_of_mirrored|].
    rewrite projection_on_orbit by assumption. now rewrite <- fixed.
  - intros [none same] j. destruct (mirrored j) eqn:is_mirrored.
    + rewrite projection_of_mirrored by assumption. now apply none.
    + unfold P, act. rewrite is_mirrored.
      rewrite (sum_ext_in _ _ (fun _ => w j * 1)) by (intros h found; rewrite same by exact found; ring).
      rewrite sum_scaled. transitivity (w j * (share * sum group (fun _ => 1))); [rewrite shares_of_all|]; ring.
Qed.

(** Such a row reads the same in all versions. *)
Lemma versions_read_alike (w u : vector) (h : element) : In h group -> alike w -> dot w (act h u) = dot w u.
Proof.
  intros in_group [none same]. unfold dot, act.
  rewrite <- (sum_permuted _ _ (fun j => w j * u j) (moves_columns h in_group)), sum_of_map.
  apply sum_ext. intro j. rewrite same by exact in_group. destruct (mirrored j) eqn:is_mirrored; [|reflexivity].
  rewrite none by exact is_mirrored. ring.
Qed.

Lemma projection_is_idempotent (u : vector) (j : column) : P (P u) j = P u j.
Proof.
  symmetry. apply fixed_by_projection_is_alike. split; auto using projection_of_mirrored, projection_on_orbit.
Qed.

(** One pass over P u serves all versions. *)
Lemma projection_reads_as_every_version (w u : vector) : alike w -> dot w (P u) = dot w u.
Proof.
  intro fair. rewrite projection_is_symmetric. apply sum_ext. intro j.
  now rewrite <- (proj2 (fixed_by_projection_is_alike w) fair j).
Qed.

(** * Training *)

Variables neuron code_column : Type.
Variable neurons : list neuron.
Variable code_columns : list code_column.
Variable value : Type.
Variable values : list value.
Variable code : value -> code_column -> R.
Variable r : value -> R. (* how much the copy with each sensitive value counts; 1/|S| if γ = 0 *)
Hypothesis releases_nothing : forall k, sum values (fun omega => r omega * code omega k) = 0.

Variable row : Type.
Variable free : row -> vector.

(** Everything but W and V, of any type, as in ExactPreservation. *)
Variable others : Type.
Variable b : others -> neuron -> R.

Record state := {
  rest : others;
  W : neuron -> vector;
  past_W : neuron -> column -> history R;
  V : neuron -> code_column -> R;
  past_V : neuron -> code_column -> history R
}.

Variable backward : others -> row -> list R -> neuron -> R.
Variable batch : state -> list row.
Variable weight : state -> row -> R.
Variable advance : state -> others.

(** One function for all coordinates of a neuron: those with equal histories get equal updates. *)
Variable optimiser : state -> neuron -> history R -> R.
Hypothesis zero_for_zero : forall now i, answers_zero_with_zero (optimiser now i).

(** The first layer for version (h, ω) of a person. *)
Definition first_layer (now : state) (u : vector) (h : element) (omega : value) : list R :=
  map
    (fun i => dot (W now i) (act h u) + sum code_columns (fun k => V now i k * code omega k) + b (rest now) i)
    neurons.

Definition signal (now : state) (person : row) (h : element) (omega : value) : neuron -> R :=
  backward (rest now) person (first_layer now (free person) h omega).

(** The exact expectations over all versions of the gradients: each adds its signal times what it shows. *)
Definition expected (now : state) (f : row -> element -> value -> R) : R :=
  sum (batch now) (fun person => weight now person *
    (share * sum group (fun h => sum values (fun omega => r omega * f person h omega)))).

Definition gradient_W (now : state) (i : neuron) (j : column) : R :=
  expected now (fun person h omega => signal now person h omega i * act h (free person) j).

Definition gradient_V (now : state) (i : neuron) (k : code_column) : R :=
  expected now (fun person h omega => signal now person h omega i * code omega k).

Definition seen_W (now : state) (i : neuron) (j : column) : history R :=
  (gradient_W now i j, W now i j) :: past_W now i j.

Definition seen_V (now : state) (i : neuron) (k : code_column) : history R :=
  (gradient_V now i k, V now i k) :: past_V now i k.

Definition step (now : state) : state := {|
  rest := advance now;
  W := fun i j => W now i j - optimiser now i (seen_W now i j);
  past_W := seen_W now;
  V := fun i k => V now i k - optimiser now i (seen_V now i k);
  past_V := seen_V now
|}.

Fixpoint run (start : state) (steps : nat) : state :=
  match steps with
  | O => start
  | S before => step (run start before)
  end.

(** A start with V = 0 and w = w P, where the optimiser has seen nothing that tells tied coordinates apart. *)
Definition fair_weights (now : state) : Prop :=
  (forall i, alike (W now i)) /\ (forall i k, V now i k = 0).

Definition fair_past (now : state) : Prop :=
  (forall i j, mirrored j = true -> quiet (past_W now i j)) /\
  (forall i g j, In g group -> past_W now i (from g j) = past_W now i j) /\
  (forall i k, quiet (past_V now i k)).

(** z = W u + b, which is the same for all versions. *)
Definition layer_of_all (now : state) (u : vector) : list R :=
  map (fun i => dot (W now i) u + b (rest now) i) neurons.

Lemma versions_have_one_first_layer (now : state) (u : vector) (h : element) (omega : value) :
  fair_weights now -> In h group -> first_layer now u h omega = layer_of_all now u.
Proof.
  intros [rows V_zero] in_group. apply map_ext. intro i.
  rewrite versions_read_alike by auto.
  rewrite (sum_of_zeros code_columns) by (intros k _; rewrite V_zero; ring). ring.
Qed.

(** The gradient of W is δ (P u)ᵀ. *)
Lemma gradient_is_of_projection (now : state) (i : neuron) (j : column) :
  fair_weights now ->
  gradient_W now i j
  = sum (batch now) (fun person => weight now person * (sum values r *
      (backward (rest now) person (layer_of_all now (free person)) i * P (free person) j))).
Proof.
  intro fair. unfold gradient_W, expected, signal. apply sum_ext. intro person. f_equal.
  set (delta := backward (rest now) person (layer_of_all now (free person)) i).
  rewrite (sum_ext_in group _ (fun h => (sum values r * delta) * act h (free person) j)).
  - rewrite sum_scaled. unfold P. ring.
  - intros h in_group.
    rewrite (sum_ext _ _ (fun omega => (delta * act h (free person) j) * r omega)).
    + rewrite sum_scaled. ring.
    + intro omega. rewrite versions_have_one_first_layer by assumption. unfold delta. ring.
Qed.

Lemma gradient_of_V_is_zero (now : state) (i : neuron) (k : code_column) :
  fair_weights now -> gradient_V now i k = 0.
Proof.
  intro fair. unfold gradient_V, expected, signal. apply sum_of_zeros. intros person _.
  set (delta := backward (rest now) person (layer_of_all now (free person)) i).
  rewrite (sum_of_zeros group); [ring|]. intros h in_group.
  rewrite (sum_ext _ _ (fun omega => delta * (r omega * code omega k))).
  - rewrite sum_scaled, releases_nothing. ring.
  - intro omega. rewrite versions_have_one_first_layer by assumption. unfold delta. ring.
Qed.

Lemma step_keeps_fair (now : state) :
  fair_weights now /\ fair_past now -> fair_weights (step now) /\ fair_past (step now).
Proof.
  intros [fair [past_mirrored [past_tied past_zero]]].
  assert (seen_zero : forall i k, quiet (seen_V now i k)).
  { intros i k entry [newest | older]; [|now apply (past_zero i k)].
    rewrite <- newest, gradient_of_V_is_zero by exact fair. now rewrite (proj2 fair). }
  assert (seen_mirrored : forall i j, mirrored j = true -> quiet (seen_W now i j)).
  { intros i j is_mirrored entry [newest | older]; [|now apply (past_mirrored i j)].
    rewrite <- newest, gradient_is_of_projection, (proj1 (proj1 fair i)) by assumption. f_equal.
    apply sum_of_zeros. intros person _. rewrite projection_of_mirrored by assumption. ring. }
  assert (seen_tied : forall i g j, In g group -> seen_W now i (from g j) = seen_W now i j).
  { intros i g j in_group. unfold seen_W. rewrite past_tied, (proj2 (proj1 fair i)) by assumption.
    rewrite !gradient_is_of_projection by exact fair. f_equal. f_equal.
    apply sum_ext. intro person. now rewrite projection_on_orbit. }
  destruct fair as [rows V_zero]. split; [split; [intro i; split|]|repeat split]; simpl; auto.
  - intros j is_mirrored. rewrite zero_for_zero by auto. rewrite (proj1 (rows i)) by exact is_mirrored. ring.
  - intros g j in_group. now rewrite seen_tied, (proj2 (rows i)).
  - intros i k. rewrite zero_for_zero, V_zero by auto. ring.
Qed.

Lemma run_keeps_fair (start : state) (steps : nat) :
  fair_weights start /\ fair_past start -> fair_weights (run start steps) /\ fair_past (run start steps).
Proof. intro fair. induction steps; simpl; auto using step_keeps_fair. Qed.

Theorem group_preservation (start : state) :
  (forall i j, W start i j = P (W start i) j) -> (forall i k, V start i k = 0) -> fair_past start ->
  forall steps,
    (forall i j, W (run start steps) i j = P (W (run start steps) i) j) /\
    (forall i k, V (run start steps) i k = 0).
Proof.
  intros rows V_zero past steps. destruct (run_keeps_fair start steps) as [[rows_after V_after] _].
  - split; [|exact past]. split; [|exact V_zero]. intro i. now apply fixed_by_projection_is_alike.
  - split; [|exact V_after]. intro i. now apply fixed_by_projection_is_alike.
Qed.

(** All versions of a person get the same decision after every step. *)
Theorem versions_alike_after_every_step (start : state) :
  (forall i j, W start i j = P (W start i) j) -> (forall i k, V start i k = 0) -> fair_past start ->
  forall steps (decision : Type) (decide : others -> list R -> decision) (u : vector)
         (g h : element) (omega omega' : value), In g group -> In h group ->
    let now := run start steps in
    decide (rest now) (first_layer now u g omega) = decide (rest now) (first_layer now u h omega').
Proof.
  intros rows V_zero past steps decision decide u g h omega omega' g_in h_in now.
  destruct (group_preservation start rows V_zero past steps) as [rows_after V_after].
  assert (fair : fair_weights now).
  { split; [|exact V_after]. intro i. now apply fixed_by_projection_is_alike. }
  now rewrite !versions_have_one_first_layer by assumption.
Qed.

End GroupPreservation.
