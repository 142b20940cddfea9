(** Does training keep a fair start fair? docs/theory.md §3: yes, after every step, whatever else happens.

    The first layer is z = W u + V c(s) + b. If V = 0 at the start and the released code is 0 in expectation, then V = 0
    after every step, and the decision is the same for every sensitive value. *)

From BornFair Require Import FiniteSums Optimisers.

Section ExactPreservation.

Variable R : ring.
Add Ring numbers : (laws R).

(** Indices: of the first layer's neurons, of the free columns, of the columns of a code. *)
Variables neuron column code_column : Type.
Variable neurons : list neuron.
Variable columns : list column.
Variable code_columns : list code_column.

(** The sensitive values S, and the rows of the table: a label and whatever else a loss may read is in a row. *)
Variable value : Type.
Variable values : list value.
Variable row : Type.
Variable free : row -> column -> R.

(** Everything but V, of any type: W, b, the layers behind, memories, schedules, random keys, the number of the step. *)
Variable others : Type.
Variable W : others -> neuron -> column -> R.
Variable b : others -> neuron -> R.

(** V with its past: what the optimiser has seen of each of its coordinates. *)
Record state := {
  rest : others;
  V : neuron -> code_column -> R;
  past : neuron -> code_column -> history R
}.

(** Everything behind z, as far as V can see it: the derivative of a row's loss by z, computed from z in any way. A list
    of numbers stands for z, so that equal numbers are one and the same argument. *)
Variable backward : others -> row -> list R -> neuron -> R.

(** How a step goes: who is in the batch and how much each row counts (class weights and 1/n are in it), what the
    optimiser subtracts, what becomes of all other parameters. Each may depend on all there is. *)
Variable batch : state -> list row.
Variable weight : state -> row -> R.
Variable optimiser : state -> neuron -> code_column -> history R -> R.
Variable advance : state -> others.
Hypothesis zero_for_zero : forall now i k, answers_zero_with_zero (optimiser now i k).

(** A start with V = 0, for which the optimiser has seen nothing or only zeros. *)
Definition fair_start (start : state) : Prop :=
  forall i k, V start i k = 0 /\ quiet (past start i k).

Section Response.

(** The response: how much the copy of a row with value ω counts. In general this depends on the row, in particular on
    its own sensitive value. *)
Variable code : value -> code_column -> R.
Variable release : row -> value -> R.

Definition first_layer (now : state) (u : column -> R) (omega : value) : list R :=
  map
    (fun i => sum columns (fun j => W (rest now) i j * u j)
              + sum code_columns (fun k => V now i k * code omega k)
              + b (rest now) i)
    neurons.

(** The exact expectation of the gradient of V: each copy adds the outer product of its backward signal and its code. *)
Definition gradient (now : state) (i : neuron) (k : code_column) : R :=
  sum (batch now) (fun person => weight now person * sum values (fun omega =>
    release person omega
    * (backward (rest now) person (first_layer now (free person) omega) i * code omega k))).

Definition seen (now : state) (i : neuron) (k : code_column) : history R :=
  (gradient now i k, V now i k) :: past now i k.

Definition step (now : state) : state := {|
  rest := advance now;
  V := fun i k => V now i k - optimiser now i k (seen now i k);
  past := seen now
|}.

Fixpoint run (start : state) (steps : nat) : state :=
  match steps with
  | O => start
  | S before => step (run start before)
  end.

(** Nothing is released about anybody: to each row, the released code is 0 in expectation. *)
Definition releases_nothing : Prop :=
  forall person k, sum values (fun omega => release person omega * code omega k) = 0.

(** z = W u + b, which nobody's sensitive value enters. *)
Definition layer_without_value (now : state) (u : column -> R) : list R :=
  map (fun i => sum columns (fun j => W (rest now) i j * u j) + b (rest now) i) neurons.

Lemma zero_weights_hide_the_value (now : state) (u : column -> R) (omega : value) :
  (forall i k, V now i k = 0) -> first_layer now u omega = layer_without_value now u.
Proof.
  intro V_zero. apply map_ext. intro i.
  rewrite (sum_of_zeros code_columns) by (intros k _; rewrite V_zero; ring). ring.
Qed.

Lemma gradient_is_zero (now : state) :
  releases_nothing -> (forall i k, V now i k = 0) -> forall i k, gradient now i k = 0.
Proof.
  intros hidden V_zero i k. apply sum_of_zeros. intros person _.
  (* The signal is the same for all copies, so it comes out of the sum over them; what is left is the mean code. *)
  set (signal := backward (rest now) person (layer_without_value now (free person)) i).
  rewrite (sum_ext _ _ (fun omega => signal * (release person omega * code omega k))).
  - rewrite sum_scaled, hidden. ring.
  - intro omega. rewrite zero_weights_hide_the_value by exact V_zero. unfold signal. ring.
Qed.

Lemma step_keeps_fair_start (now : state) : releases_nothing -> fair_start now -> fair_start (step now).
Proof.
  intros hidden fair i k. destruct (fair i k) as [V_zero nothing].
  assert (still : quiet (seen now i k)).
  { intros entry [newest | older]; [|now apply nothing].
    rewrite <- newest, V_zero, gradient_is_zero; [reflexivity|assumption|]. intros. apply fair. }
  split; [|exact still]. simpl. rewrite V_zero, zero_for_zero by exact still. ring.
Qed.

Lemma run_keeps_fair_start (start : state) (steps : nat) :
  releases_nothing -> fair_start start -> fair_start (run start steps).
Proof. intros hidden fair. induction steps; simpl; auto using step_keeps_fair_start. Qed.

Theorem exact_preservation (start : state) :
  releases_nothing -> fair_start start -> forall steps i k, V (run start steps) i k = 0.
Proof. intros. now apply run_keeps_fair_start. Qed.

(** Individually fair after every step: [decide] is anything that follows the first layer. *)
Theorem fair_after_every_step (start : state) :
  releases_nothing -> fair_start start ->
  forall steps (decision : Type) (decide : others -> list R -> decision) (u : column -> R) (omega omega' : value),
    let now := run start steps in
    decide (rest now) (first_layer now u omega) = decide (rest now) (first_layer now u omega').
Proof.
  intros hidden fair steps decision decide u omega omega' now.
  now rewrite !zero_weights_hide_the_value by now apply exact_preservation.
Qed.

End Response.

(** Codes that do not depend on the row's own sensitive value: every row gets ω with the same weight r(ω). *)
Definition for_every_row (r : value -> R) : row -> value -> R := fun _ => r.

Theorem weighted_preservation (code : value -> code_column -> R) (r : value -> R) (start : state) :
  (forall k, sum values (fun omega => r omega * code omega k) = 0) -> fair_start start ->
  forall steps i k, V (run code (for_every_row r) start steps) i k = 0.
Proof. intros. now apply exact_preservation. Qed.

Theorem weighted_fair_after_every_step (code : value -> code_column -> R) (r : value -> R) (start : state) :
  (forall k, sum values (fun omega => r omega * code omega k) = 0) -> fair_start start ->
  forall steps (decision : Type) (decide : others -> list R -> decision) (u : column -> R) (omega omega' : value),
    let now := run code (for_every_row r) start steps in
    decide (rest now) (first_layer code now u omega) = decide (rest now) (first_layer code now u omega').
Proof. intros. now apply fair_after_every_step. Qed.

(** §3 as it stands there: γ = 0 releases each value with probability [share] = 1/|S|, and codes are centred. *)
Section Uniform.

Variable share : R.
Variable code : value -> code_column -> R.
Hypothesis centred : forall k, sum values (fun omega => code omega k) = 0.

Definition uniform : row -> value -> R := for_every_row (fun _ => share).

Lemma uniform_releases_nothing (k : code_column) : sum values (fun omega => share * code omega k) = 0.
Proof. rewrite sum_scaled, centred. ring. Qed.

Theorem uniform_preservation (start : state) :
  fair_start start -> forall steps i k, V (run code uniform start steps) i k = 0.
Proof. apply weighted_preservation, uniform_releases_nothing. Qed.

Theorem uniform_fair_after_every_step (start : state) :
  fair_start start ->
  forall steps (decision : Type) (decide : others -> list R -> decision) (u : column -> R) (omega omega' : value),
    let now := run code uniform start steps in
    decide (rest now) (first_layer code now u omega) = decide (rest now) (first_layer code now u omega').
Proof. apply weighted_fair_after_every_step, uniform_releases_nothing. Qed.

End Uniform.

(** The population reading: a row gets the code that somebody of the population releases, not its own. People have value
    s with weight [share s], and [mechanism s ω] is the probability that s is released as ω. The mechanism is arbitrary,
    so γ enters only through what the population releases. *)
Section Population.

Variable share : value -> R.
Variable mechanism : value -> value -> R.
Hypothesis everybody : sum values share = 1.
Hypothesis something_is_released : forall s, sum values (mechanism s) = 1.

Definition released (omega : value) : R := sum values (fun s => share s * mechanism s omega).

Definition population : row -> value -> R := for_every_row released.

(** Codes centred at what the population releases in expectation. *)
Definition recentred (code : value -> code_column -> R) (omega : value) (k : code_column) : R :=
  code omega k - sum values (fun w => released w * code w k).

Lemma released_sums_to_one : sum values released = 1.
Proof.
  unfold released. rewrite sum_swap, <- everybody at 1. apply sum_ext. intro s.
  rewrite sum_scaled, something_is_released. ring.
Qed.

Lemma population_releases_nothing (code : value -> code_column -> R) (k : code_column) :
  sum values (fun omega => released omega * recentred code omega k) = 0.
Proof.
  unfold recentred. set (mean := sum values (fun w => released w * code w k)).
  rewrite (sum_ext _ _ (fun omega => released omega * code omega k - mean * released omega)) by (intro; ring).
  rewrite sum_sub, sum_scaled, released_sums_to_one. fold mean. ring.
Qed.

Theorem population_preservation (code : value -> code_column -> R) (start : state) :
  fair_start start -> forall steps i k, V (run (recentred code) population start steps) i k = 0.
Proof. apply weighted_preservation, population_releases_nothing. Qed.

Theorem population_fair_after_every_step (code : value -> code_column -> R) (start : state) :
  fair_start start ->
  forall steps (decision : Type) (decide : others -> list R -> decision) (u : column -> R) (omega omega' : value),
    let now := run (recentred code) population start steps in
    decide (rest now) (first_layer (recentred code) now u omega)
    = decide (rest now) (first_layer (recentred code) now u omega').
Proof. apply weighted_fair_after_every_step, population_releases_nothing. Qed.

End Population.

End ExactPreservation.

Arguments rest {R neuron code_column others}.
Arguments V {R neuron code_column others}.
Arguments past {R neuron code_column others}.
