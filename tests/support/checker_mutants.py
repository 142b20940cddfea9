"""The checker broken on purpose, one line at a time: does a test notice?

    python tests/support/checker_mutants.py [NUMBER …]     runs the tests on each broken copy; prints the survivors

Each entry is (what is there, what stands there instead). A survivor is a check that no test needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "checker_domain", "checker_tampering", "checker_twins", "checker_hostile", "checker_proofs", "checker_forests",
)  # fmt: skip

MUTANTS: dict[str, tuple[tuple[str, str], ...]] = {  # by the tests that are run first
    "checker_hostile": (
        ("same and plain and mark and _is_when(", "same and mark and _is_when("),
        (" and zlib.crc32(found[name]) == crc,", ","),
        ("need(machine.eof and not machine.unused_data,", "need(machine.eof,"),
        ('need(content[at:] == b"PK\\5\\6" + end_of,', 'need(content[at : at + 4] == b"PK\\5\\6",'),
        ("need(known and name not in found and", "need(known and"),
        ("need(len(found) == len(pairs),", "need(True,"),
        ("need(name not in found, f\"field", "need(True, f\"field"),
        ("need(all(map(math.isfinite, numbers)),", "need(True,"),
        ('need("raw" not in tensor,', "need(True,"),
    ),
    "checker_forests": (
        ('need(found["aggregate_function"] == 1,', "need(True,"),
        ('need(found["post_transform"] == 0,', "need(True,"),
        ("need(set(found) == TREES,", "need(set(found) >= TREES,"),
        ("need(not any(modes),", "need(True,"),
        ("need(apart,", "need(True,"),
        ("table.dims[:1] == (count + 2,)", "True"),
        ("need(not any(map(math.isnan, splits)),", "need(True,"),
        ("need(all(side >= 0 for side in sides),", "need(True,"),
        ("need(not leaf_seen[~side],", "need(True,"),
        ("need(all(split_seen) and all(leaf_seen),", "need(True,"),
        ("need(name not in people.sensitive_set, f\"a split reads", "need(True, f\"a split reads"),
        ("need(same, f\"a split tells", "need(True, f\"a split tells"),
        ("without = lowest is not None and low > lowest", "without = True"),
        ("return most * unit * (1 + 2.0**-20) < 2.0**53", "return most * unit < 2.0**60"),
        ("sure = not error[0] or abs(apart[0]) > error[0]", "sure = True"),
        ("if name not in people.moved}", "}"),
        ("need(names[column] not in people.sensitive_set,", "need(True,"),
        ("if side != -1]", "if side > 10**9]"),
        ("len(beside) <= isinstance(network, ForestGraph),", "True,"),
        ("need(not beside or verdict != \"verified\" or proof == \"structural\",", "need(True,"),
        ("and (not self.float64 or self.network.adds_exactly) and self.is_same(box)", "and self.is_same(box)"),
        ("if place.feature in self.people.sensitive_set and all(sides):", "if False:"),
        ("if place.feature in self.people.moved and self._tells(at, place):", "if False:"),
        ("if self.float64:\n            error = forest.error(", "if False:\n            error = forest.error("),
    ),
    "checker_domain": (
        ("need(len(self.rows) > 1,", "need(len(self.rows) > 0,"),
        ("need(len(self.rows) == len(rows),", "need(True,"),
        ("need(several,", "need(True,"),
        ("set(rest) == KINDS[kind],", "set(rest) >= KINDS[kind],"),
        ("need(levels and all(map(is_value, levels)),", "need(levels,"),
        ("need(all(map(self._keeps_combinations, self.rules)),", "need(True,"),
        ("need(fits, f\"'{feature}' is mirrored elsewhere\")", "need(True, '')"),
        ("len(set(values)) == len(values) > 0,", "len(values) > 0,"),
        (" and low <= value <= high and float(value) == value", " and low <= value and float(value) == value"),
    ),
    "checker_tampering": (
        ('fits = fits and dict(map(_attribute, node["attributes"])) == attributes', "fits = fits and True"),
        ('node.get("domain", "") == domain', "True"),
        ("fits = fits and all(mine in (None, theirs) for", "fits = fits and all(True for"),
        ("need(low <= feature[\"low\"] and feature[\"high\"] <= high,", "need(low <= feature[\"low\"],"),
        ('need(constant > 0 or operator in ("Sub", "Add"),', "need(True,"),
        ("need(min(factors) >= 0,", "need(True,"),
        ("need((zero.type, zero.dims, zero.values[0]) == (FLOAT, (1,), 0),", "need(True,"),
        ("need(list(names.values) == shown and", "need(sorted(map(str, names.values)) == sorted(map(str, shown)) and"),
        ("need(given == wanted,", "need(True,"),
        ("need(not self.unread,", "need(True,"),
        ("need(network.activation != \"gelu\" or", "need(True or"),
        ("need(are_versions(people, one, other),", "need(True,"),
        ("need(people.has(name, value), f\"a twin's", "need(True, f\"a twin's"),
        ('<= people.rows, "such twins do not exist")', '<= people.rows or True, "such twins do not exist")'),
        ("need(None not in found and found[0] != found[1],", "need(None not in found,"),
        ("need(data[\"files\"].get(name) == digest,", "need(True,"),
        ("need(held >= set(arithmetic),", "need(held & set(arithmetic),"),
        ("need(data[\"property\"] == property_of(people),", "need(True,"),
        ("need(data[\"claim\"] in claims,", "need(True,"),
        ("need(people.sensitive, \"no feature", "need(True, \"no feature"),
    ),
    "checker_proofs": (
        ("if name in people.sensitive_set and any(network.columns[j].unlisted for j in places):", "if False:"),
        ("finite = all(size < math.inf for size in moved) and (", "finite = ("),
        ("return {\"real\"}  # weights that cancel", "return {\"real\", \"float32\"}  # weights that cancel"),
        ("for level in levels[1:]]", "for level in levels[2:]]"),
        ("and sum(map(mul, row, change))):", "and False):"),
        ("(layer == 0 or stay_finite(network, layer, sizes))", "True"),
        ("for j in several) for row in rows])", "for j in several[1:]) for row in rows])"),
        ("if network.activation == \"relu\" and depth < last:", "if network.activation == \"relu\":"),
        ("if network.activation == \"relu\" and depth < last:", "if depth < last:"),
        ("apart = [other and (b > 0 or max(row) > 0) for", "apart = [other and max(row) > 0 for"),
        ("apart = [other and (b > 0 or max(row) > 0) for", "apart = [other and b > 0 for"),
        ("apart = [any(row[i] for i in alone) or not all(", "apart = [not all("),
        ("or not all(cancels(row, group) for", "or not any(cancels(row, group) for"),
        ("likely = same_signs(network, depth - 1, before) if cancelling else []",
         "likely = same_signs(network, depth - 1, before)"),
        ("need(work <= MOST_WEIGHTS,", "need(True,"),
        ("return [i for several in found.values() if len(several) > 1 for i in several]", "return neurons"),
        ("numbers = [Fraction(w) for w in (*rows[i], bias[i])]", "numbers = [Fraction(w) for w in rows[i]]"),
        ("size = next(abs(w) for w in numbers if w)", "size = next(w for w in numbers if w)"),
        ("if network.activation == \"relu\" else Fraction(1)", ""),
        ("return sum(Fraction(row[i]) * factor for", "return sum(Fraction(row[i]) for"),
        ("found = {j for i in found for j, weight in enumerate(rows[i]) if weight}",
         "found = {j for i in found for j, weight in enumerate(rows[i])}"),
        ("found.append(max(map(abs, column.table.values()), default=0.0))", "found.append(0.0)"),
        ("found.append(math.inf)", "found.append(0.0)"),
        ("not all(size < 2.0**126 for size in sums):", "not any(size < 2.0**126 for size in sums):"),
        ("sizes = [max(size, 1.0) * more for size in sums]", "sizes = [1.0 for size in sums]"),
        ("sum(map(mul, map(abs, row), sizes)) + abs(b) for row", "abs(sum(map(mul, row, sizes))) + abs(b) for row"),
        ("ends = column.limits if sensitive and column.limits else", "ends ="),
        ("error = [(self.unit + gamma * (1 + 2.0**-20)) * s", "error = [self.unit * s"),
        ("return total - lost * (1 + 2.0**-20) - 2.0**-900, row", "return total, row"),
        ("total += x * max(-slope * low, high - slope * high) * (1 + 2.0**-40)", "pass"),
        ("if low[0] > 0 if best else high[0] <= 0:", "if low[0] > 0 if best else high[0] <= 0.01:"),
        ("return all(self.is_decided(image | view, best) for", "return any(self.is_decided(image | view, best) for"),
        ("differs = [d and z > 0 for", "differs = [d and z > 1 for"),
        ("return len(classes) == 1 and None not in classes", "return None not in classes"),
        ("return list(itertools.pairwise([*cuts, high]))", "return list(itertools.pairwise(cuts))"),
        ("and all(self.is_decided(image, best) for image in images[1:])", ""),
        ("after = where + 1 if", "after = where + 2 if"),
        ("need(done, f\"the tree leaves", "need(True, f\"the tree leaves"),
        ("need(not done, ", "need(True, "),
    ),
}  # fmt: skip


def survives(first: str, old: str, new: str) -> bool:
    """Whether all tests pass on the broken copy."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(ROOT / "src" / "bornfair", Path(place) / "bornfair")
        file = Path(place) / "bornfair" / "proof" / "checker.py"
        source = file.read_text()
        if source.count(old) != 1:
            raise SystemExit(f"{old!r} is in the checker {source.count(old)} times, not once")
        file.write_text(source.replace(old, new))
        tests = [f"tests/proof/test_{name}.py" for name in [first, *(name for name in TESTS if name != first)]]
        command = [sys.executable, "-m", "pytest", "-xq", "-p", "no:cacheprovider", *tests]
        environment = os.environ | {"PYTHONPATH": place}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 0


def main(numbers: list[int]) -> int:
    left, listed = [], [(first, *pair) for first, pairs in MUTANTS.items() for pair in pairs]
    for number in numbers or range(len(listed)):
        alive = survives(*listed[number])
        left += [number] if alive else []
        print(f"{number}: {'SURVIVES' if alive else 'noticed'}  {listed[number][1]}", flush=True)
    print(f"{len(left)} survive: {left}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main([int(text) for text in sys.argv[1:]]))
