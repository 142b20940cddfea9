"""Models and domains that are well-formed and hostile: large arrays in small files, trees without an end.

Each maker gets a `random.Random` and returns the content of a file; `MODELS` lists them by the name of their file.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from hostile_graphs import GRAPHS
from hostile_making import Chance

# --- Keras ---


def large_h5(chance: Chance) -> bytes:
    """Arrays that are large when they are read, in a file that is not."""
    import h5py

    from keras_files import config_of, stack, write_h5

    made = io.BytesIO()
    layers, weights = stack("relu")
    file_ = _written(lambda path: write_h5(path, config_of(layers, 2), weights, 2))
    made.write(file_)
    with h5py.File(made, "r+") as file:
        arrays: list[Any] = []
        file.visititems(lambda _, item: arrays.append(item) if isinstance(item, h5py.Dataset) else None)
        chosen = chance.sample(arrays, chance.choice([1, 2, len(arrays)]))
        for one in chosen:
            name, holder = one.name, one.parent
            short = name.rsplit("/", 1)[1]
            way = chance.randrange(6)
            del holder[short]
            if way <= 1:
                shape = chance.choice([(10**9,), (4, 10**8), (20_000, 20_000), (2**40, 4), (0, 4), ()])
                options = (
                    {}
                    if 0 in shape or shape == ()
                    else {"chunks": tuple(max(min(n, 1000), 1) for n in shape), "compression": "gzip"}
                )
                holder.create_dataset(short, shape, chance.choice(["f4", "f8", "f2"]), **options)
            elif way == 2:
                holder[short] = h5py.ExternalLink(chance.choice(["four.keras", "/etc/passwd", "three.h5"]), "/x")
            elif way == 3:
                holder[short] = h5py.SoftLink(chance.choice([name, "/", "gone"]))
            elif way == 4:
                holder.create_dataset(short, data=[chance.choice(["x", "1"])] * 4, dtype=h5py.string_dtype())
            else:
                layout = h5py.VirtualLayout((10**9,), "f4")
                layout[:4] = h5py.VirtualSource("/etc/passwd", "x", (4,))
                holder.create_virtual_dataset(short, layout)
    return made.getvalue()


def odd_h5(chance: Chance) -> bytes:
    import h5py

    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        way = chance.randrange(4)
        if way == 0:
            group = file
            for i in range(chance.choice([50, 3_000])):
                group = group.create_group(f"g{i % 10}")
        elif way == 1:
            for i in range(chance.choice([100, 5_000])):
                file.create_dataset(f"d{i}", (1000,), "f4", chunks=(1000,), compression="gzip")
        elif way == 2:
            file["loop"] = file["/"]
        file.attrs["model_config"] = chance.choice(
            ["{}", "[" * 60_000, '{"class_name": "Sequential", "config": {"layers": []}}', "x" * 60_000, "null"]
        )
    return made.getvalue()


def keras_archive(chance: Chance) -> bytes:
    """An archive with a bomb, doubled or odd names, a description without an end, or a layer with code."""
    from keras_files import config_of, stack, write_keras

    layers, weights = stack("relu")
    way = chance.randrange(7)
    if way == 0:
        layers[1] = {
            "class_name": "Lambda",
            "config": {"name": "dense", "function": {"class_name": "__lambda__", "config": {"code": "4wEA"}}},
        }
    elif way == 1:
        layers[1]["config"]["units"] = chance.choice([10**12, -1, 0, "6", None, [6]])
    elif way == 2:
        layers[:] = layers * chance.choice([50, 2_000])
    content = _written(lambda path: write_keras(path, config_of(layers, 3), weights))
    made = io.BytesIO(content)
    if way >= 3:
        with zipfile.ZipFile(made) as old:
            parts = {name: old.read(name) for name in old.namelist()}
        made = io.BytesIO()
        name = chance.choice([*parts])
        if way == 3:
            parts[name] = b"\0" * chance.choice([100 << 20, 400 << 20])
        elif way == 4:
            parts["config.json"] = chance.choice(
                [
                    b"[" * 10**6,
                    b'{"a":' * 10**5,
                    b"",
                    b"\xff",
                    b"NaN",
                    b'{"config": {"layers": [' + b"1," * 10**5 + b"1]}}",
                ]
            )
        elif way == 5:
            parts[chance.choice(["../../x", "/tmp/x", "a" * 60_000, "\x01", "config.json/"])] = parts.pop(name)
        else:
            parts |= {f"extra{i}": b"x" for i in range(chance.choice([10, 30_000]))}
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
            for key, value in parts.items():
                new.writestr(key, value)
    return made.getvalue()


def _written(write: Callable[[Any], Any]) -> bytes:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write(path)
        return path.read_bytes()


# --- forests ---


def xgboost_trees(chance: Chance) -> bytes:
    """Trees as XGBoost writes them: one very deep, a cycle, nodes of two parents, or very many."""
    way = chance.randrange(5)
    depth = chance.choice([50, 2_000, 50_000])
    if way == 0:  # a comb
        left = [i + 1 if i % 2 == 0 else -1 for i in range(2 * depth + 1)]
        left = [2 * i + 1 for i in range(depth)]
        nodes = 2 * depth + 1
        lefts, rights = [-1] * nodes, [-1] * nodes
        parent = 0
        for number in left:
            lefts[parent], rights[parent] = number, number + 1
            parent = number
    elif way == 1:
        nodes, lefts, rights = 3, [1, chance.choice([0, 1, 2]), -1], [2, 0, -1]
    elif way == 2:
        nodes, lefts, rights = 3, [1, -1, -1], [1, -1, -1]
    else:
        nodes, lefts, rights = 3, [1, -1, -1], [2, -1, -1]
    tree = {
        "left_children": lefts, "right_children": rights, "parents": [2147483647, *[0] * (nodes - 1)],
        "split_conditions": [chance.choice([0.5, float("1e38"), -0.0])] * nodes, "split_indices": [chance.choice([0, 0,
        3, 4, -1, 10**9])] * nodes,
        "split_type": [0] * nodes, "default_left": [0] * nodes, "base_weights": [0.1] * nodes,
        "loss_changes": [0.0] * nodes,
        "sum_hessian": [1.0] * nodes, "categories": [], "categories_nodes": [], "categories_segments": [],
        "categories_sizes": [], "id": 0,
        "tree_param": {"num_deleted": "0", "num_feature": "4", "num_nodes": str(nodes), "size_leaf_vector": "1"},
    }  # fmt: skip
    count = chance.choice([1, 3, 5_000]) if nodes < 10 else 1
    trees = [tree | {"id": i} for i in range(count)]
    facts = {
        "version": [2, 0, 0],
        "learner": {
            "attributes": {}, "feature_names": ["age", "income", "group", "debt"], "feature_types": ["float"] * 4,
            "gradient_booster": {
                "name": "gbtree",
                "model": {
                    "gbtree_model_param": {"num_trees": str(chance.choice([count, 10**12])), "num_parallel_tree": "1"},
                    "iteration_indptr": [*range(count + 1)], "tree_info": [0] * count, "trees": trees,
                },
            },
            "learner_model_param": {"base_score": chance.choice(["5E-1", "nan", "[5E-1]", "1e400", "0"]),
            "num_class": chance.choice(["0", "0", str(10**9)]), "num_feature": chance.choice(["4", "4", str(10**9)]),
            "num_target": "1"},
            "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}},
        },
    }  # fmt: skip
    return json.dumps(facts).encode()


def ubjson(chance: Chance) -> bytes:
    """Lengths that are not there, and nesting."""
    return chance.choice([
        b"{L\0\0\0\0\0\0\0\x01a[$i#L\x7f\xff\xff\xff\xff\xff\xff\xff", b"{L\x7f\xff\xff\xff\xff\xff\xff\xffa",
        b"[" * 10**6, b"[#i\x7f" * 10**5,
        b"{L\0\0\0\0\0\0\0\x01a[$T#L\0\0\0\x10\0\0\0\0", b"{L\0\0\0\0\0\0\0\x01a[$Z#L\0\0\0\0\x40\0\0\0}",
        b"[$[#L\0\0\0\0\x01\0\0\0", b"N" * 10**6 + b"{}",
        b"{i\x01aH" + b"i\x7f" + b"9" * 127 + b"}", b"{i\x01aSL\xff\xff\xff\xff\xff\xff\xff\xffx}",
        b"[$L#L\0\0\0\0\x08\0\0\0" + b"\0" * 1000,
    ])  # fmt: skip


def lightgbm_text(chance: Chance) -> bytes:
    leaves = chance.choice([2, 3_000, 50_000])
    comb = [str(i + 1) for i in range(leaves - 2)] + ["-1"]
    if chance.random() < 0.3:
        comb = ["0"] * (leaves - 1)  # a cycle
    value = chance.choice(["0.5", "1e308", "nan", "0x1p3"])
    tree = [
        "Tree=0", f"num_leaves={chance.choice([leaves, leaves, 10**12])}", "num_cat=0",
        "split_feature=" + " ".join(["0"] * (leaves - 1)), "split_gain=" + " ".join(["1"] * (leaves - 1)),
        "threshold=" + " ".join([value] * (leaves - 1)), "decision_type=" + " ".join(["2"] * (leaves - 1)),
        "left_child=" + " ".join(comb),
        "right_child=" + " ".join(str(-i - 2) for i in range(leaves - 1)), "leaf_value=" + " ".join(["0.1"] * leaves),
        "leaf_weight=" + " ".join(["1"] * leaves),
        "leaf_count=" + " ".join(["1"] * leaves), "internal_value=" + " ".join(["0"] * (leaves - 1)), "is_linear=0",
        "shrinkage=1", "", "",
    ]  # fmt: skip
    head = [
        "tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0",
        f"max_feature_idx={chance.choice([3, 3, 10**9])}", "objective=binary sigmoid:1",
        "feature_names=age income group debt", "feature_infos=[0:1] [0:1] [0:1] [0:1]",
        "tree_sizes=" + str(len("\n".join(tree))), "",
    ]  # fmt: skip
    return "\n".join([*head, *tree * chance.choice([1, 1, 200 if leaves < 10 else 1]), "end of trees", ""]).encode()


def catboost_json(chance: Chance) -> bytes:
    """Symmetric trees with very many splits: the number of leaves is a power of two of them."""
    splits = chance.choice([2, 16, 31, 64, 5_000])
    leaves = chance.choice([2 ** min(splits, 16), 4])
    tree = {
        "leaf_values": [0.1] * leaves, "leaf_weights": [1.0] * leaves,
        "splits": [{"border": 0.5, "float_feature_index": i % 4, "split_index": i,
        "split_type": "FloatFeature"} for i in range(splits)],
    }  # fmt: skip
    names = ["age", "income", "group", "debt"]
    features = [
        {
            "borders": [0.5],
            "feature_index": i,
            "flat_feature_index": i,
            "feature_id": n,
            "has_nans": False,
            "nan_value_treatment": "AsIs",
        }
        for i, n in enumerate(names)
    ]
    facts = {
        "features_info": {"float_features": features}, "oblivious_trees": [tree] * chance.choice([1, 20]),
        "scale_and_bias": [1.0, [chance.choice([0.0, 1e308])]],
        "model_info": {"params": {"loss_function": {"type": "Logloss"}}, "class_params": {"class_to_label": [0, 1],
        "class_names": [0, 1], "class_label_type": "Integer", "classes_count": 2}},
    }  # fmt: skip
    return json.dumps(facts).encode()


def large_json(chance: Chance) -> bytes:
    """JSON that is deep, long, or doubled, and no model."""
    return chance.choice([
        b"[" * 10**6, b'{"a":' * 10**5 + b"1" + b"}" * 10**5, b"[" + b"{}," * 3_000_000 + b"{}]", b"1" * 5_000,
        b"1" * 10**7, b'"' + b"x" * 10**7 + b'"',
        b'{"a": 1, "a": 2}', b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"[1e999, NaN, -Infinity]", b"\0",
        b"{}" + b" " * 10**7, b"", b'{"learner": {}}', b"null",
        b'"\\ud800"', b"{" + b",".join(b'"k%d": 1' % i for i in range(300_000)) + b"}",
    ])  # fmt: skip


# --- text of numbers, domains ---


def nnet_text(chance: Chance) -> bytes:
    layers, width = chance.choice([(10**9, 5), (2, 10**9), (-1, 5), (10**5, 1), (2, 2_000)])
    sizes = [4, *[width] * min(layers - 1, 10**5), 1]
    head = [
        "// hostile",
        f"{layers},4,1,{width},",
        ",".join(map(str, sizes)) + ",",
        "0,",
        "17,0,0,-5,",
        "90,60,3,5,",
        "0,0,0,0,0,",
        "1,1,1,1,1,",
    ]
    body = chance.choice([["0.1,"] * 100, ["nan," * 4] * 10, [",".join(["1"] * 10**6)], ["0.5," * 4] * 40_000, ["\0"]])
    return "\n".join([*head, *body]).encode()


def domain_json(chance: Chance) -> bytes:
    """People who could exist: very many features or values, or ranges without an end."""
    group = {"name": "group", "kind": "integer", "low": 0, "high": chance.choice([3, 3, 10**6, 10**18, 10**400])}
    rest = [
        {"name": "age", "kind": "integer", "low": 17, "high": chance.choice([90, 10**300, 2**63, 1e308])},
        {"name": "income", "kind": "real", "low": chance.choice([0.0, -1e308]), "high": chance.choice([60.0, 1e308,
        "Infinity"]), "grid": chance.choice([17, 10**12, 0, -1])},
        {"name": "debt", "kind": "real", "low": -5.0, "high": 5.0},
    ]  # fmt: skip
    count = chance.choice([0, 0, 300, 20_000])
    rest += [{"name": f"c{i}", "kind": "boolean"} for i in range(count)]
    if chance.random() < 0.3:
        group = {
            "name": "group",
            "kind": "categorical",
            "categories": [f"v{i}" for i in range(chance.choice([2, 3_000, 200_000]))],
        }
    sensitive = chance.choice([["group"], ["group"], ["group", "age"], [f["name"] for f in [group, *rest]], []])
    combinations = chance.choice([None, None, [], [[0]] * 100_000, [[0, 1, 2]], [["x"]]])
    return json.dumps(
        {
            "format": "bornfair-domain/1",
            "features": [*rest, group],
            "sensitive": sensitive,
            "combinations": combinations,
            "label": None,
        }
    ).encode()


MODELS: dict[str, dict[str, Callable[[Chance], bytes]]] = {
    "four.onnx": GRAPHS | {"JSON": large_json},
    "four.h5": {"large arrays": large_h5, "odd groups": odd_h5},
    "four.keras": {"an archive": keras_archive},
    "four.nnet": {"numbers": nnet_text},
    "four.json": {"a domain": domain_json, "JSON": large_json},
    "trees.json": {"trees of XGBoost": xgboost_trees, "JSON": large_json},
    "trees.ubj": {"UBJSON": ubjson},
    "light.txt": {"trees of LightGBM": lightgbm_text},
    "cat.json": {"trees of CatBoost": catboost_json},
}  # fmt: skip
