"""Build the distributions, install the wheel alone in a new environment and import every module.

First with the base dependencies only: every module that needs no extra imports, every
module that needs one says which. Then with the extras: everything imports. That
pyproject.toml forgets no dependency shows only where nothing else is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
IN_SDIST = ("README.md", "LICENSE", "pyproject.toml", "sqs_workers/__init__.py", "tests/test_architecture.py")

PROBE = """
import importlib, json, pkgutil, sys

import sqs_workers

loaded = sorted(name for name in sys.modules if name.split(".")[0] in json.loads(sys.argv[1]))
report = {"file": sqs_workers.__file__, "loaded_at_import": loaded, "modules": {}}
for module in pkgutil.walk_packages(sqs_workers.__path__, "sqs_workers.", onerror=lambda name: None):
    if module.name.endswith(".__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except Exception as error:
        report["modules"][module.name] = f"{type(error).__name__}: {error}"
    else:
        report["modules"][module.name] = ""
print(json.dumps(report))
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:6]))} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def check(condition: bool, complaint: str) -> None:
    if not condition:
        raise SystemExit(complaint)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def build(work: Path) -> Path:
    """The path of the wheel, after a look into both archives."""
    run(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT, cwd=work)
    (wheel,) = (work / "dist").glob("*.whl")
    (sdist,) = (work / "dist").glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    check("sqs_workers/py.typed" in names, "py.typed is not in the wheel")
    foreign = [name for name in names if not name.startswith(("sqs_workers/", "sqs_workers-"))]
    check(not foreign, f"the wheel installs files outside of the package: {foreign}")
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in IN_SDIST if name not in members]
    check(not missing, f"not in the sdist: {missing}")
    return wheel


def probe(python: Path, third_party: list[str], work: Path) -> dict[str, str]:
    """The error of each module's import, empty where there was none."""
    report = json.loads(run(python, "-I", "-c", PROBE, json.dumps(third_party), cwd=work))
    check(str(work) in report["file"], f"imported {report['file']}, not the installed wheel")
    check(not report["loaded_at_import"], f"import sqs_workers loads {report['loaded_at_import'][:5]}")
    return dict(report["modules"])


def check_base(found: dict[str, str], extras: dict[str, dict[str, Any]]) -> None:
    for module, error in found.items():
        needs = next((needs for package, needs in extras.items() if within(module, package)), None)
        if needs is None:
            check(not error, f"{module} does not import with the base dependencies alone: {error}")
        elif error and "extra" in needs:
            hint = f"sqs-workers[{needs['extra']}]"
            check(hint in error, f"{module} fails without its extra and does not name {hint}: {error}")


def main() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    extras: dict[str, dict[str, Any]] = project["tool"]["sqs-workers"]["extras"]
    third_party = sorted(
        {"boto3", "botocore", *(name for needs in extras.values() for name in needs["imports"])}
    )
    with tempfile.TemporaryDirectory(prefix="wheel-") as directory:
        work = Path(directory).resolve()
        wheel = build(work)
        venv.create(work / "venv", with_pip=True)
        python = work / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel, cwd=work)
        run(python, "-m", "pip", "check", cwd=work)
        base = probe(python, third_party, work)
        check_base(base, extras)
        wanted = ",".join(sorted({needs["extra"] for needs in extras.values() if "extra" in needs}))
        others = sorted(
            {name for needs in extras.values() if "extra" not in needs for name in needs["imports"]}
        )
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[{wanted}]", *others, cwd=work)
        run(python, "-m", "pip", "check", cwd=work)
        complete = probe(python, third_party, work)
        failed = {module: error for module, error in complete.items() if error}
        check(not failed, f"with all extras installed: {failed}")
    print(f"{wheel.name}: {len(base)} modules, all of them import")


if __name__ == "__main__":
    main()
