# %% [markdown]
# # Hand a model over to a validator
#
# The developer says that the model is fair. The validator believes nobody: a folder and one file of Python arrive,
# nothing needs to be installed, and the proof is made anew from the model file.

# %%
import shutil
import subprocess
import sys
from pathlib import Path

import bornfair.proof.checker
from bornfair import FairClassifier, datasets

# %% [markdown]
# ## The developer

# %%
compas = datasets.load("compas")
training, test = datasets.split(compas, seed=0)
clf = FairClassifier(["race", "sex"], random_state=0).fit(training.drop(columns=compas.target), training[compas.target])
parcel = Path("parcel")
parcel.mkdir(exist_ok=True)
clf.save(parcel / "bundle")
shutil.copy(bornfair.proof.checker.__file__, parcel / "checker.py")

# %% [markdown]
# ## The validator
#
# `-I` and `-S` keep every installed package out: the checker runs with Python's standard library alone.


# %%
def check(bundle: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "checker.py", bundle], cwd=parcel, capture_output=True, text=True, check=False
    )


accepted = check("bundle")
print(accepted.stdout)

# %% [markdown]
# ## What if somebody changes the model afterwards?
#
# One byte of one weight is enough to be noticed.

# %%
shutil.copytree(parcel / "bundle", parcel / "altered", dirs_exist_ok=True)
model = parcel / "altered" / "model.onnx"
content = bytearray(model.read_bytes())
content[len(content) // 2] ^= 1
model.write_bytes(bytes(content))
rejected = check("altered")
print(rejected.stdout)
