"""No library sends facts about a model to its maker."""

import os
import subprocess
import sys
from pathlib import Path

import bornfair

SERVED = """
import os, sys
import bornfair
from bornfair.models.onnx_child import session_of
from onnx import TensorProto, helper

pair = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", pair[:1], pair[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session_of(model.SerializeToString())
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


def served(place, **more):
    tests_are_not_counted = {"CI", "ORT_RUNNING_UNIT_TESTS", "ORT_DISABLE_TELEMETRY"}
    kept = {name: value for name, value in os.environ.items() if name not in tests_are_not_counted}
    kept |= {"PYTHONPATH": str(Path(bornfair.__file__).parents[1]), "TMPDIR": str(place), **more}
    return subprocess.run([sys.executable, "-c", SERVED], env=kept, capture_output=True, text=True, check=True).stdout


def test_onnxruntime_keeps_no_record_of_its_sessions(tmp_path):
    assert served(tmp_path) == "1\n"
    assert list(tmp_path.iterdir()) == []


def test_a_setting_of_the_user_is_kept(tmp_path):
    assert served(tmp_path, ORT_DISABLE_TELEMETRY="true") == "true\n"
