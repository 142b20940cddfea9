(** What do all proofs here compute with? A commutative ring, and sums over lists.

    A vector is a function from its indices, a matrix a function of two. A sum runs over a list of indices, so nothing
    has to be said about how many there are. Numbers are those of any commutative ring: the real numbers, the fractions
    and the integers are some, floating-point numbers are not. *)

From Coq Require Export List Permutation Ring Bool.
Export ListNotations.

Record ring := {
  number :> Type;
  zero : number;
  one : number;
  add : number -> number -> number;
  mul : number -> number -> number;
  sub : number -> number -> number;
  opp : number -> number;
  laws : ring_theory zero one add mul sub opp eq
}.

Arguments zero {r}.
Arguments one {r}.
Arguments add {r}.
Arguments mul {r}.
Arguments sub {r}.
Arguments opp {r}.

Declare Scope number_scope.
Delimit Scope number_scope with number.
Notation "0" := zero : number_scope.
Notation "1" := one : number_scope.
Infix "+" := add : number_scope.
Infix "*" := mul : number_scope.
Infix "-" := sub : number_scope.
Open Scope number_scope.

Fixpoint sum {R : ring} {I : Type} (indices : list I) (f : I -> R) : R :=
  match indices with
  | [] => 0
  | i :: others => f i + sum others f
  end.

Section Sums.

Variable R : ring.
Add Ring numbers : (laws R).

Lemma sum_ext_in {I} (indices : list I) (f g : I -> R) :
  (forall i, In i indices -> f i = g i) -> sum indices f = sum indices g.
Proof.
  induction indices as [|i others IH]; simpl; intro same; [reflexivity|].
  rewrite same, IH; auto.
Qed.

Lemma sum_ext {I} (indices : list I) (f g : I -> R) : (forall i, f i = g i) -> sum indices f = sum indices g.
Proof. intro same. apply sum_ext_in. auto. Qed.

Lemma sum_of_zeros {I} (indices : list I) (f : I -> R) : (forall i, In i indices -> f i = 0) -> sum indices f = 0.
Proof.
  induction indices as [|i others IH]; simpl; intro all_zero; [reflexivity|].
  rewrite all_zero, IH by auto. ring.
Qed.

Lemma sum_add {I} (indices : list I) (f g : I -> R) :
  sum indices (fun i => f i + g i) = sum indices f + sum indices g.
Proof. induction indices as [|i others IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma sum_sub {I} (indices : list I) (f g : I -> R) :
  sum indices (fun i => f i - g i) = sum indices f - sum indices g.
Proof. induction indices as [|i others IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma sum_scaled {I} (factor : R) (indices : list I) (f : I -> R) :
  sum indices (fun i => factor * f i) = factor * sum indices f.
Proof. induction indices as [|i others IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma sum_swap {I J} (rows : list I) (columns : list J) (f : I -> J -> R) :
  sum rows (fun i => sum columns (f i)) = sum columns (fun j => sum rows (fun i => f i j)).
Proof.
  induction rows as [|i others IH]; simpl.
  - symmetry. now apply sum_of_zeros.
  - now rewrite IH, sum_add.
Qed.

Lemma sum_of_map {I J} (place : J -> I) (indices : list J) (f : I -> R) :
  sum (map place indices) f = sum indices (fun j => f (place j)).
Proof. induction indices as [|j others IH]; simpl; [|rewrite IH]; reflexivity. Qed.

Lemma sum_permuted {I} (here there : list I) (f : I -> R) : Permutation here there -> sum here f = sum there f.
Proof. induction 1; simpl; try congruence; ring. Qed.

End Sums.

Arguments sum_ext_in {R I}.
Arguments sum_ext {R I}.
Arguments sum_of_zeros {R I}.
Arguments sum_add {R I}.
Arguments sum_sub {R I}.
Arguments sum_scaled {R I}.
Arguments sum_swap {R I J}.
Arguments sum_of_map {R I J}.
Arguments sum_permuted {R I}.
