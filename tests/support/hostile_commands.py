"""Which commands read which kind of file? One function per kind draws a command line for a file of it."""

from __future__ import annotations

from pathlib import Path

from hostile_making import Chance

QUICK = ["--timeout", "0.3"]
SMALL = ["--epochs", "1", "--hidden", "2", "--out", "made"]
GRANT, SEX = ["--target", "grant"], ["--sensitive", "sex"]
FOUR, GROUP = ["--data", "four.csv", "--target", "y"], ["--sensitive", "group"]
PEOPLE = ["--domain", "four.json"]


def of_bundle(place: str, chance: Chance) -> list[str]:
    return chance.choice([
        ["check", place], ["check", place], ["predict", place, "lanes.csv"], ["verify", place, *QUICK], ["verify",
        place, *QUICK],
        ["verify", place, "--engine", "smt", *QUICK], ["quantify", place, *QUICK], ["verify", place, "--engine", "milp",
        *QUICK],
        ["certify", place, "--out", "made", *QUICK], ["export", place, "made.onnx"], ["export", place, "made",
        "--query"],
        ["predict", place, "people.csv"], ["predict", place, "people.csv", "--stream", "--out", "made.csv"], ["drift",
        place, "people.csv"],
        ["drift", place, "lanes.csv"], ["audit", place, *GRANT, "--data", "people.csv", *QUICK, "--report",
        "made.json"],
        ["explain", place, "--person", "folk.json", *QUICK], ["explain", place, "--data", "people.csv", "--row", "3",
        *QUICK],
        ["repair", place, "--data", "people.csv", *GRANT, "--no-fine-tune", "--out", "made"],
        ["proxies", "people.csv", *GRANT, *SEX, "--model", place],
    ])  # fmt: skip


def of_model(file: str, chance: Chance) -> list[str]:
    who = chance.choice([PEOPLE, FOUR])
    return chance.choice([
        *[["verify", file, *who, *GROUP, *QUICK]] * 5, ["quantify", file, *who, *GROUP, *QUICK], ["verify", file, *who,
        *GROUP, *QUICK, "--opaque"],
        ["audit", file, *FOUR, *GROUP, *QUICK, "--report", "made.html"], ["explain", file, *FOUR, *PEOPLE, "--row", "0",
        *GROUP, *QUICK],
        ["explain", file, *PEOPLE, "--person", "person.json", *GROUP, *QUICK],
        ["repair", file, *FOUR, *PEOPLE, *GROUP, "--no-fine-tune", "--out", "made"], ["certify", file, *who, *GROUP,
        "--out", "made", *QUICK],
        ["proxies", "four.csv", "--target", "y", *GROUP, "--model", file],
    ])  # fmt: skip


def of_forest(file: str, chance: Chance) -> list[str]:
    who = [*chance.choice([PEOPLE, FOUR]), *GROUP]
    decides = ["--decision", "logit"] if file.endswith(".onnx") else []
    return chance.choice([
        ["verify", file, *who, *decides, *QUICK], ["verify", file, *who, *decides, *QUICK, "--engine", "milp"],
        ["quantify", file, *who, *decides, *QUICK], ["certify", file, *who, "--out", "made", *QUICK],
        ["repair", file, *FOUR, *GROUP, "--out", "made"], ["audit", file, *FOUR, *GROUP, *decides, *QUICK, "--report",
        "made.md"],
        ["explain", file, *PEOPLE, *GROUP, *decides, "--person", "person.json", *QUICK],
    ])  # fmt: skip


def of_table(file: str, chance: Chance) -> list[str]:
    return chance.choice([
        ["inspect", file], ["inspect", file, *GRANT, *SEX], ["predict", "structural", file], ["predict", "structural",
        file, "--out", "made.csv"],
        ["predict", "structural", file, "--stream", "--out", "made.csv"], ["proxies", file, *GRANT, *SEX], ["proxies",
        file, *GRANT, *SEX, "--stream"],
        ["verify", "structural", "--data", file, *GRANT, *QUICK], ["quantify", "structural", "--data", file, *GRANT,
        *QUICK],
        ["drift", "structural", file], ["gamma", file, *GRANT, *SEX], ["audit", "falsified", "--data", file, *GRANT,
        *QUICK, "--report", "made.json"],
        ["audit", "structural", "--data", file, *GRANT, *QUICK, "--stream", "--report", "made.json"],
        ["explain", "structural", "--data", file, "--row", "1", *QUICK], ["repair", "falsified", "--data", file, *GRANT,
        "--no-fine-tune", "--out", "made"],
        ["certify", "trees.json", "--data", file, *GRANT, *SEX, "--out", "made", *QUICK], ["train", file, *GRANT, *SEX,
        *SMALL],
        ["train", file, *GRANT, "--sensitive", "age", *SMALL], ["train", file, *GRANT, *SEX, "--stream", "--cache",
        "made.cache", *SMALL],
        ["train", file, *GRANT, *SEX, "--missing", "impute", "--unseen", "ignore", *SMALL],
    ])  # fmt: skip


def of_domain(file: str, chance: Chance) -> list[str]:
    return chance.choice([
        ["verify", "four.onnx", "--domain", file, *GROUP, *QUICK], ["verify", "four.nnet", "--domain", file, *GROUP,
        *QUICK],
        ["train", "four.csv", "--target", "y", "--domain", file, *SMALL], ["quantify", "four.nnet", "--domain", file,
        *GROUP, *QUICK],
        ["gamma", file], ["audit", "four.nnet", *FOUR, "--domain", file, *GROUP, *QUICK, "--report", "made.json"],
        ["explain", "four.nnet", "--domain", file, *GROUP, "--person", "person.json", *QUICK],
        ["certify", "trees.json", "--domain", file, *GROUP, "--out", "made", *QUICK],
    ])  # fmt: skip


def of_person(file: str, chance: Chance) -> list[str]:
    if file == "folk.json":
        return ["explain", chance.choice(["structural", "falsified"]), "--person", file, *QUICK]
    return ["explain", chance.choice(["four.nnet", "trees.json"]), *PEOPLE, *GROUP, "--person", file, *QUICK]


def of_rule(rule: str, chance: Chance) -> list[str]:
    asked = [
        ["verify", "structural", *QUICK],
        ["train", "people.csv", *GRANT, *SEX, *SMALL],
        ["gamma", "people.csv", *GRANT, *SEX],
    ]
    return [*chance.choice(asked), f"--twins={rule}"]


def train(table: str, checkpoint: str, folder: Path = Path()) -> list[str]:
    words = [
        "train",
        str(folder / table),
        *GRANT,
        *SEX,
        "--epochs",
        "4",
        "--hidden",
        "3",
        "--out",
        str(folder / "made"),
    ]
    return [*words, "--checkpoint", str(folder / checkpoint)]


def of_checkpoint(file: str, chance: Chance) -> list[str]:
    return train("people.csv", file)


def of_cuts(file: str, chance: Chance) -> list[str]:
    return ["verify", "classes", "--engine", "bounds", "--resume", file, *QUICK]


def of_cache(folder: str, chance: Chance) -> list[str]:
    return ["train", "people.csv", *GRANT, *SEX, *SMALL, "--stream", "--cache", folder]


def of_part(file: str, chance: Chance) -> list[str]:
    return ["predict", "structural", "people.csv", "--stream", "--out", "decided.csv"]
