"""The reference queries: all commands, all kinds of model, and the Python interface.

A group is a list of queries that run one after the other in one folder (`inputs.py` fills it), so that a query may read
the bundles of earlier ones. Nothing ends by time: searches end by --most-boxes, or because everybody is decided.
"""

from __future__ import annotations

from python_queries import CLASSIFIERS, FORESTS, FUNCTIONS, WRAPPERS
from running import Query

LONG = "--timeout 600 --json"
OF_PEOPLE = "people.csv --target grant --sensitive sex"
QUICK = "--epochs 12 --hidden 16,8 --json"
NUMBERS = "--data numbers.csv --target loan --sensitive woman"
WIDE = "--data wide.csv --target loan --sensitive woman"
NNET = "--sensitive 3 --normalise no"


def _train(name: str, options: str) -> Query:
    return Query(f"train {name}", f"train {options} --out {name}", keeps=(name,))


TRAINING = [
    _train("default", f"{OF_PEOPLE} --epochs 10 --json"),
    _train("paper", f"{OF_PEOPLE} --preset paper --init exact --hidden 8 --learning-rate 0.2 --epochs 30 --json"),
    _train("accurate", f"{OF_PEOPLE} --preset accurate --members 2 --epochs 6 --calibrate --json"),
    _train("declared", f"{OF_PEOPLE} --twins 'sex: male<->female, job: nurse<->smith' {QUICK}"),
    _train("gaps", f"gaps.csv --target grant --sensitive sex {QUICK}"),
    _train("several", f"{OF_PEOPLE} --sensitive age --sensitive race {QUICK}"),
    _train("streamed", f"{OF_PEOPLE} --stream {QUICK}"),
    _train("threshold", f"{OF_PEOPLE} --threshold yes=0.3 --class-weight balanced --epochs 30 --hidden 8 --json"),
    _train("sampled", f"{OF_PEOPLE} --response sampled --project --epochs 30 --hidden 8 --json"),
    _train("population", f"{OF_PEOPLE} --response population --gamma 0.4 --activation tanh {QUICK}"),
    _train(
        "unfair",
        f"{OF_PEOPLE} --response none --verify-seconds 600 --epochs 40 --learning-rate 0.02 --hidden 8,6 --json",
    ),
    Query("train in words", f"train {OF_PEOPLE} --epochs 2 --hidden 8 --checkpoint half.npz --out worded"),
]

BUNDLES = [
    Query("predict", "predict default bare.csv --out classes.csv", keeps=("classes.csv",)),
    Query("predict in batches", "predict default people.csv --stream --id age --out batches.csv",
          keeps=("batches.csv",)),
    Query("predict with gaps", "predict gaps gaps.csv --out gappy.csv", keeps=("gappy.csv",)),
    Query("predict at a threshold", "predict unfair newer.csv --threshold yes=0.7 --json"),
    Query("check", "check default --json"),
    Query("check in words", "check declared"),
    Query("check an unfair bundle", "check unfair --json"),
    Query("certify an unfair bundle", f"certify unfair --out certified {LONG}", keeps=("certified",)),
    Query("certify at another threshold", f"certify default --threshold yes=0.4 --out moved.zip {LONG}"),
    Query("check a zip", "check moved.zip --json"),
    Query("export a graph", "export default model.onnx --json", keeps=("model.onnx",)),
    Query("export without sensitive", "export several bare --without-sensitive --json", keeps=("bare",)),
    Query("export the question", "export unfair asked --query --margin 0.25 --json", keeps=("asked",)),
    Query("verify a bundle", f"verify default {LONG}"),
    Query("verify declared twins", f"verify declared {LONG}"),
    Query("verify an unfair bundle", "verify unfair --timeout 600"),
    Query("verify other twins", f"verify default --twins 'job: nurse<->smith' {LONG}"),
    Query("verify other columns", f"verify unfair --sensitive race --sensitive owner --data people.csv {LONG}"),
    Query("verify scores", f"verify unfair --output probability --tolerance 0.9 {LONG}"),
    Query("quantify a bundle", f"quantify unfair --most-boxes 300 --data people.csv --target grant {LONG}"),
    Query("quantify as in the data", f"quantify unfair --over data --data people.csv --where age=20..30 "
          f"--most-boxes 100 {LONG}"),
    Query("quantify rows", f"quantify unfair --over newer.csv {LONG}"),
    Query("explain a row", f"explain unfair --row 3 --data people.csv --within age=2 {LONG}"),
    Query("explain in words", "explain default --row 0 --data people.csv --within income --timeout 600"),
    Query("drift", "drift default newer.csv --json"),
    Query("drift in words", "drift gaps newer.csv"),
    Query("repair a bundle", "repair unfair --data people.csv --target grant --epochs 3 --out mended --json",
          keeps=("mended",)),
    Query("proxies of a model", f"proxies {OF_PEOPLE} --model unfair --after mended --json"),
]  # fmt: skip

NETWORKS = [
    Query("verify a small network", f"verify small.nnet {NNET} {LONG}", everywhere=True),
    Query("verify by bounds", f"verify small.nnet {NNET} --engine bounds --most-boxes 400 {LONG}", everywhere=True),
    *(Query(f"prove by {engine}", f"verify still.onnx {NUMBERS} --engine {engine} {limit} {LONG}",
            everywhere=engine != "smt")
      for engine, limit in (("auto", "--most-boxes 2000"), ("bounds", "--most-boxes 2000"), ("milp", ""),
                            ("smt", "--where age=30..31 --where level=0..0 --partitions 1"))),
    Query("verify by smt", f"verify nearly.onnx {NUMBERS} --engine smt --partitions 4 {LONG}"),
    Query("verify by milp", f"verify nearly.onnx {NUMBERS} --engine milp {LONG}"),
    Query("verify a fair graph", f"verify same.onnx {NUMBERS} {LONG}", everywhere=True),
    Query("verify an almost fair graph", f"verify nearly.onnx {NUMBERS} --most-boxes 500 {LONG}", everywhere=True),
    Query("stop a search", f"verify nearly.onnx {NUMBERS} --engine bounds --most-boxes 1 {LONG}"),
    Query("verify h5", f"verify mlp.h5 {NUMBERS} {LONG}", everywhere=True),
    Query("verify keras", f"verify mlp.keras {NUMBERS} --threshold 0.7 {LONG}", everywhere=True),
    Query("verify several columns", f"verify mlp.onnx {NUMBERS} --sensitive level --synthetic {LONG}"),
    Query("verify for others", f"verify mlp.onnx {NUMBERS} --sarif f.sarif --junit f.xml {LONG}",
          keeps=("f.sarif", "f.xml")),
    Query("change of the score", f"verify mlp.onnx {NUMBERS} --change {LONG}"),
    Query("quantify a small network", f"quantify small.nnet {NNET} --most-boxes 20 {LONG}", everywhere=True),
    Query("quantify a graph", f"quantify mlp.onnx {NUMBERS} --timeout 600", everywhere=True),
    Query("quantify at a threshold", f"quantify mlp.onnx {NUMBERS} --threshold 'top 12%' --most-boxes 50 {LONG}"),
    Query("explain a graph", f"explain mlp.onnx {NUMBERS} --row 16 --within hours=3 {LONG}", everywhere=True),
    Query("explain a person", f"explain small.nnet {NNET} --person person.json {LONG}"),
    Query("audit a graph", f"audit mlp.onnx {NUMBERS} --report net.json {LONG}", everywhere=True),
    Query("audit in words", f"audit mlp.onnx {NUMBERS} --report net.html --card net.md --timeout 600",
          keeps=("net.html", "net.md")),
    Query("audit a fair graph", f"audit same.onnx {NUMBERS} --synthetic {LONG}"),
    Query("audit side by side", f"audit mlp.onnx same.onnx {NUMBERS} --report two.html {LONG}", keeps=("two.html",)),
    *(Query(f"repair {method}", f"repair mlp.onnx {NUMBERS} --method {method} --epochs 3 --out {method} --json",
            keeps=(method,)) for method in ("plain", "least_squares", "auto", "average")),
    Query("repair without training", "repair small.nnet --sensitive x3 --data renamed.csv --normalise no "
          "--no-fine-tune --out projected --json"),
    Query("verify the average", f"verify average {LONG}"),
]  # fmt: skip

TREES = [
    *FORESTS,
    *(Query(f"verify {file} by {engine}", f"verify {file} {NUMBERS} --engine {engine} --most-boxes 2000 {LONG}")
      for file, engine in (("x.json", "auto"), ("x.json", "bounds"), ("l.txt", "milp"), ("r.onnx", "auto"))),
    *(Query(f"verify wide {file} by {engine}", f"verify {file} {WIDE} --engine {engine} --most-boxes 3000 {LONG}")
      for file, engine in (("wx.json", "bounds"), ("wl.txt", "milp"))),
    *(Query(f"prove wide trees by {engine}", f"verify wl.txt {WIDE} --threshold 0.07 --engine {engine} {LONG}")
      for engine in ("bounds", "milp")),
    Query("quantify wide trees", f"quantify wx.json {WIDE} --most-boxes 200 {LONG}"),
    Query("quantify wide trees as in the data", f"quantify wl.txt {WIDE} --over data --most-boxes 100 {LONG}"),
    Query("repair wide trees", f"repair wx.json {WIDE} --method drop --out wide --json", keeps=("wide",)),
    Query("quantify trees", f"quantify x.json {NUMBERS} --most-boxes 60 {LONG}"),
    Query("quantify trees at a threshold", f"quantify l.txt {NUMBERS} --threshold 0.3 --where hours=2..6 {LONG}"),
    Query("explain trees", f"explain l.txt {NUMBERS} --row 3 --within age=4 {LONG}"),
    Query("audit trees", f"audit x.json {NUMBERS} --report trees.html {LONG}", keeps=("trees.html",)),
    Query("certify trees", f"certify x.json {NUMBERS} --out cert {LONG}", keeps=("cert",)),
    Query("check trees", "check cert --json"),
    *(Query(f"repair trees {method}", f"repair {file} {NUMBERS} --method {method} --out {method} --json",
            keeps=(method,)) for file, method in (("x.json", "plain"), ("l.txt", "drop"), ("r.onnx", "average"))),
    Query("check a repaired forest", "check plain --json"),
    Query("verify a repaired forest", f"verify plain {LONG}"),
    Query("predict by a repaired forest", "predict drop numbers.csv --out trees.csv", keeps=("trees.csv",)),
    *(_train(name, f"{OF_PEOPLE} --estimator {estimator} --method {method} --json") for name, estimator, method in (
        ("xgboost", "xgboost", "merge"), ("lightgbm", "lightgbm", "average"), ("scikit", "random-forest", "average"),
        ("logistic", "logistic", "merge"))),
    Query("verify a trained forest", f"verify xgboost {LONG}"),
    Query("audit a trained average", f"audit lightgbm --data people.csv --target grant --over uniform {LONG}"),
]  # fmt: skip

ASKED = [
    *FUNCTIONS,
    Query("verify wires", f"verify wired.onnx {NUMBERS} {LONG}", everywhere=True),
    Query("verify an unknown graph", f"verify unknown.onnx {NUMBERS} {LONG}", everywhere=True),
    Query("quantify an unknown graph", f"quantify unknown.onnx {NUMBERS} {LONG}", everywhere=True),
    Query("explain by an unknown graph", f"explain unknown.onnx {NUMBERS} --row 34 --within hours=2 {LONG}",
          everywhere=True),
    Query("audit an unknown graph", f"audit unknown.onnx {NUMBERS} --over uniform --report asked.md {LONG}",
          keeps=("asked.md",)),
    Query("average an unknown graph", f"repair unknown.onnx {NUMBERS} --method average --out mean --json",
          keeps=("mean",)),
    Query("verify an averaged graph", f"verify mean {LONG}"),
    Query("check an averaged graph", "check mean --json"),
    Query("predict by an averaged graph", "predict mean numbers.csv --json"),
    Query("verify a command", f"verify --model-command 'PYTHON -S program.py' {NUMBERS} {LONG}", everywhere=True),
    Query("quantify a command", f"quantify --model-command 'PYTHON -S program.py' {NUMBERS} --most 0 {LONG}",
          everywhere=True),
    Query("explain by a command", f"explain --model-command 'PYTHON -S program.py' {NUMBERS} --row 34 {LONG}",
          everywhere=True),
    Query("ask a graph from outside", f"verify mlp.onnx --opaque {NUMBERS} {LONG}"),
]  # fmt: skip

TABLES = [
    Query("inspect", f"inspect {OF_PEOPLE} --json", everywhere=True),
    Query("inspect an odd table", "inspect odd.csv --delimiter ';' --decimal , --target grant --sensitive sex",
          everywhere=True),
    Query("inspect a dataset", "inspect --dataset credit --sensitive sex --json"),
    Query("proxies", f"proxies {OF_PEOPLE} --json"),
    Query("proxies of a dataset", "proxies --dataset credit --sensitive sex"),
    Query("gamma of a table", f"gamma {OF_PEOPLE} --json", everywhere=True),
    Query("gamma of codes", "gamma --codes '-1,1' --shares 0.67,0.33 --draws 3 --json", everywhere=True),
    Query("gamma of bad codes", "gamma --codes '0,1'", everywhere=True),
    Query("datasets", "datasets list --json"),
    *(Query(f"mistake: {name}", command, everywhere=True) for name, command in {
        "no target": "train people.csv --sensitive sex",
        "no such column": "train people.csv --target grant --sensitive sx",
        "no sensitive column": "train people.csv --target grant",
        "no such file": "verify nothing.onnx --sensitive 3",
        "no graph": f"verify text.onnx {NUMBERS}",
        "no model": f"verify {NUMBERS}",
        "no such engine": f"verify small.nnet {NNET} --engine magic",
        "no such option": "verify small.nnet --colour red",
        "no such dataset": "train --dataset nobody --sensitive sex",
        "identifier": "train odd.csv --delimiter ; --target grant --sensitive sex",
        "no bundle": "predict broken.json people.csv",
        "gap": "train gaps.csv --target grant --sensitive sex --missing error --epochs 1",
        "normalise": "verify small.nnet --sensitive 3",
        "bad twins": f"train {OF_PEOPLE} --twins 'sex: male<->man'",
        "bad domain": f"verify mlp.onnx {NUMBERS} --domain broken.json",
    }.items()),
]  # fmt: skip

GROUPS = {
    "networks": NETWORKS,
    "bundles": TRAINING + BUNDLES,
    "trees": TREES,
    "asked": ASKED,
    "python": [*CLASSIFIERS, *WRAPPERS],
    "tables": TABLES,
}
