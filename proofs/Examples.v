(** Do the premises of the theorems ever hold together, and are they needed? Small instances of each.

    A theorem about nothing would be easy to prove. Here two people train for real, over integers and fractions. *)

From Coq Require Import ZArith ZArithRing Qcanon.
From BornFair Require Import FiniteSums Optimisers ExactPreservation.
From BornFair Require GroupPreservation Structural Relus.

Definition integers : ring := Build_ring Z 0%Z 1%Z Z.add Z.mul Z.sub Z.opp InitialRing.Zth.
Definition fractions : ring := Build_ring Qc 0%Qc 1%Qc Qcplus Qcmult Qcminus Qcopp Qcrt.

(** * Exact preservation *)

(** One neuron, one free column, two sensitive values. A person has a free value and one of the sensitive values; the
    signal is what the squared loss gives, z minus the free value. All of W and b is 0 and stays so. *)
Section TwoValues.

Variable code : bool -> unit -> integers.
Variable release : integers * bool -> bool -> integers.

Definition people : list (integers * bool) := [(5%Z : integers, true); (3%Z : integers, true)].

Definition start : state integers unit unit unit :=
  {| rest := tt; V := fun _ _ => 0; past := fun _ _ => [] |}.

Definition trained (steps : nat) : state integers unit unit unit :=
  run integers unit unit unit [tt] [tt] [tt] bool [true; false] (integers * bool) (fun person _ => fst person) unit
    (fun _ _ _ => 0) (fun _ _ => 0)
    (fun _ person z _ => hd 0 z - fst person)
    (fun _ => people) (fun _ _ => 1) (fun _ _ _ => with_momentum integers 1%Z 2%Z 3%Z) (fun _ => tt)
    code release start steps.

(** What the theorem says of them, with all premises but the one on the response. *)
Lemma two_values_stay_alike :
  releases_nothing integers unit bool [true; false] (integers * bool) code release ->
  forall steps, V (trained steps) tt tt = 0.
Proof.
  intros hidden steps. apply exact_preservation; [|exact hidden|].
  - intros. apply momentum_answers_zero_with_zero.
  - intros i k. split; [reflexivity|]. intros seen [].
Qed.

End TwoValues.

Definition centred_code (omega : bool) (_ : unit) : integers := if omega then 1%Z else (-1)%Z.
Definition zero_one_code (omega : bool) (_ : unit) : integers := if omega then 1%Z else 0%Z.

(** γ = 0 counts both values alike; γ > 0 counts a person's own more. *)
Definition alike_for_all (_ : integers * bool) (_ : bool) : integers := 1%Z.
Definition own_value_more (person : integers * bool) (omega : bool) : integers :=
  if eqb (snd person) omega then 3%Z else 1%Z.

Example centred_codes_keep_zero (steps : nat) :
  V (trained centred_code alike_for_all steps) tt tt = 0.
Proof. apply two_values_stay_alike. intros person k. reflexivity. Qed.

(** Neither premise can be left out. *)
Example zero_one_codes_leave_zero : V (trained zero_one_code alike_for_all 1) tt tt = 8%Z.
Proof. reflexivity. Qed.

Example gamma_above_zero_leaves_zero : V (trained centred_code own_value_more 1) tt tt = 16%Z.
Proof. reflexivity. Qed.

(** * Declared twins *)

(** Husband and wife change places and age, told around its middle, is mirrored: a group of two, [true] the swap. *)
Inductive column := husband | wife | age.

Definition columns : list column := [husband; wife; age].

Definition swapped (h : bool) (j : column) : column :=
  match h, j with
  | true, husband => wife
  | true, wife => husband
  | _, _ => j
  end.

Definition is_number (j : column) : bool := match j with age => true | _ => false end.
Definition mirror (h : bool) (_ : column) : fractions := if h then (- (1))%Qc else 1%Qc.
Definition half : fractions := Q2Qc (QArith_base.Qmake 1 2).

Lemma swap_moves_columns (h : bool) : In h [false; true] -> Permutation (map (swapped h) columns) columns.
Proof. intros _. destruct h; simpl; [apply perm_swap|reflexivity]. Qed.

Lemma swap_is_closed (g : bool) : In g [false; true] -> Permutation (map (xorb g) [false; true]) [false; true].
Proof. intros _. destruct g; simpl; [apply perm_swap|reflexivity]. Qed.

(** All premises about a group hold for this one. What is left to the user of this instance is how to train. *)
Definition husbands_and_wives_stay_alike := GroupPreservation.versions_alike_after_every_step
  fractions column columns
  bool [false; true] swapped is_number mirror
  swap_moves_columns
  ltac:(intros [] [] _; reflexivity)
  xorb
  ltac:(intros [] [] []; reflexivity)
  swap_is_closed
  ltac:(intros [] moved; try discriminate moved; apply Qc_is_canon; reflexivity)
  half
  ltac:(apply Qc_is_canon; reflexivity).

(** * ReLUs that are never active, and weights that cancel *)

(** Two neurons read the sensitive value; the second is twice the first. Behind them one neuron reads 2·first − second,
    the other −first; the output adds these two up and reads nothing else. *)
Definition whole (n : Z) : Relus.rationals := Q2Qc (QArith_base.Qmake n 1).

Definition made (wide : nat) (rows : list (list Z)) : Structural.layer Relus.rationals :=
  {| Structural.width := wide;
     Structural.weights := fun n i => whole (nth i (nth n rows []) 0%Z);
     Structural.biases := fun n => whole 0;
     Structural.activation := fun _ => Relus.relu |}.

Definition reading := made 2 [[1; 1]; [2; 2]]%Z.
Definition hiding := made 2 [[2; -1]; [-1; 0]]%Z.
Definition adding := made 2 [[1; 1]]%Z.

Definition doubled : Relus.group Relus.rationals :=
  {| Relus.members := [(0%nat, whole 1); (1%nat, whole 2)]; Relus.row := fun _ => whole 1; Relus.base := whole 0 |}.

Definition behind (groups : list (Relus.group Relus.rationals)) : Relus.stages Relus.rationals :=
  [(groups, hiding); ([], adding)].

(** Two sensitive values: input 1 is 1 or −1. *)
Definition twin (code : Z) : Structural.view Relus.rationals nat nat :=
  {| Structural.matrix := fun i _ => if Nat.eqb i 0 then whole 1 else whole 0;
     Structural.offset := fun i => if Nat.eqb i 0 then whole 0 else whole code |}.

Definition flagged (dying : bool) (groups : list (Relus.group Relus.rationals)) : bool :=
  Relus.flags_of Relus.rationals Relus.rational_is_zero Relus.rational_not_above dying (behind groups)
    (Structural.cancelling Relus.rationals Relus.rational_is_zero reading [0%nat] (twin 1) (twin (-1))) 0%nat.

Lemma doubled_is_one_function : Relus.relu_network reading (behind [doubled]).
Proof.
  repeat split; try (intros; reflexivity); try contradiction; try (repeat constructor; simpl; intuition discriminate);
    try (intros i [<- | [<- | []]]; simpl; tauto);
    destruct H as [<- | []]; destruct H0 as [pair | [pair | []]]; injection pair as <- <-; try reflexivity;
    intros j [<- | [<- | []]]; apply Qc_is_canon; reflexivity.
Qed.

(** The output is the same for twins; without either of the two rules no flag says so. *)
Example both_rules_prove_it : flagged true [doubled] = true.
Proof. reflexivity. Qed.

Example each_rule_is_needed : flagged false [doubled] = false /\ flagged true [] = false.
Proof. split; reflexivity. Qed.
