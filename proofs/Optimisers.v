(** Which optimisers do the theorems allow? Those that answer a history of zeros with a zero update.

    An optimiser sees, coordinate by coordinate, the gradients so far and the values the coordinate had: the pairs
    (gradient, value), newest first. It says what to subtract. Weight decay reads the value. *)

From BornFair Require Import FiniteSums.

Definition history (R : ring) : Type := list (R * R).

(** Nothing has happened to the coordinate: each gradient was 0, and it was 0 itself. *)
Definition quiet {R : ring} (past : history R) : Prop := forall seen, In seen past -> seen = (0, 0).

Definition answers_zero_with_zero {R : ring} (update : history R -> R) : Prop :=
  forall past, quiet past -> update past = 0.

Section Optimisers.

Variable R : ring.
Add Ring numbers : (laws R).

(** An optimiser as a program: it keeps a memory, which each (gradient, value) changes, and answers out of it. *)
Section Machine.

Variable memory : Type.
Variable start : memory.
Variable next : memory -> R * R -> memory.
Variable answer : memory -> R -> R. (* of the memory after the newest gradient, and the value *)

Fixpoint remembered (past : history R) : memory :=
  match past with
  | [] => start
  | newest :: older => next (remembered older) newest
  end.

Definition machine_update (past : history R) : R :=
  match past with
  | [] => 0
  | newest :: _ => answer (remembered past) (snd newest)
  end.

(** It is enough that some memories are at rest: the first one is, zeros leave it so, and then the answer is 0. *)
Lemma machine_answers_zero_with_zero (at_rest : memory -> Prop) :
  at_rest start ->
  (forall held, at_rest held -> at_rest (next held (0, 0))) ->
  (forall held, at_rest held -> answer held 0 = 0) ->
  answers_zero_with_zero machine_update.
Proof.
  intros first stays silent.
  assert (rests : forall past, quiet past -> at_rest (remembered past)).
  { induction past as [|newest older IH]; simpl; intro nothing; [exact first|].
    rewrite (nothing newest) by (now left). apply stays, IH. intros seen found. apply nothing. now right. }
  intros past nothing. destruct past as [|newest older]; simpl; [reflexivity|].
  rewrite (nothing newest) by (now left). apply silent.
  change (at_rest (next (remembered older) (0, 0))). apply stays, rests.
  intros seen found. apply nothing. now right.
Qed.

End Machine.

(** The optimisers of training/loops.py. [rate] is the step size and [decay] the weight decay. *)
Variables rate decay momentum : R.

Definition sgd : history R -> R :=
  machine_update R 0 (fun _ seen => fst seen + decay * snd seen) (fun held _ => rate * held).

Definition with_momentum : history R -> R :=
  machine_update R 0 (fun held seen => momentum * held + (fst seen + decay * snd seen)) (fun held _ => rate * held).

Theorem sgd_answers_zero_with_zero : answers_zero_with_zero sgd.
Proof. apply machine_answers_zero_with_zero with (at_rest := fun held => held = 0); simpl; intros; subst; ring. Qed.

Theorem momentum_answers_zero_with_zero : answers_zero_with_zero with_momentum.
Proof. apply machine_answers_zero_with_zero with (at_rest := fun held => held = 0); simpl; intros; subst; ring. Qed.

(** Adam divides a mean of gradients by the root of a mean of their squares. All that counts is that 0 divided by
    anything is 0; root, bias corrections ([debias], of the number of steps) and epsilon may be whatever they are. *)
Variables first_share second_share epsilon : R.
Variable divide : R -> R -> R.
Variable root : R -> R.
Variables debias_first debias_second : nat -> R.
Hypothesis zero_divided : forall x, divide 0 x = 0.

Record moments := { steps : nat; first : R; second : R }.

Definition adam_next (before : R) (held : moments) (seen : R * R) : moments :=
  let gradient := fst seen + before * snd seen in
  {| steps := S (steps held);
     first := first_share * first held + (1 - first_share) * gradient;
     second := second_share * second held + (1 - second_share) * (gradient * gradient) |}.

Definition adam_answer (after : R) (held : moments) (value : R) : R :=
  rate * (divide (divide (first held) (debias_first (steps held)))
                 (root (divide (second held) (debias_second (steps held))) + epsilon)
          + after * value).

Definition fresh : moments := {| steps := 0; first := 0; second := 0 |}.

(** Adam adds the decay to the gradient, AdamW to the update. *)
Definition adam : history R -> R := machine_update moments fresh (adam_next decay) (adam_answer 0).
Definition adamw : history R -> R := machine_update moments fresh (adam_next 0) (adam_answer decay).

Lemma adam_like_answers_zero_with_zero (before after : R) :
  answers_zero_with_zero (machine_update moments fresh (adam_next before) (adam_answer after)).
Proof.
  apply machine_answers_zero_with_zero with (at_rest := fun held => first held = 0); simpl.
  - reflexivity.
  - intros held at_rest. rewrite at_rest. ring.
  - intros held at_rest. unfold adam_answer. rewrite at_rest, !zero_divided. ring.
Qed.

Theorem adam_answers_zero_with_zero : answers_zero_with_zero adam.
Proof. apply adam_like_answers_zero_with_zero. Qed.

Theorem adamw_answers_zero_with_zero : answers_zero_with_zero adamw.
Proof. apply adam_like_answers_zero_with_zero. Qed.

End Optimisers.
