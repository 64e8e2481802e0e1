#!/usr/bin/env bash
# Makes or refreshes .venv: the locked packages and the project itself, editable.
#
# `make` calls it when the lock, pyproject.toml or this file is newer than the stamp it leaves.  It needs a Python of
# 3.11 or later with venv, and a package registry as pip or uv find it; no cache, no uv and no HOME of a certain kind.
set -euo pipefail
cd "$(dirname "$0")/.."

# Candidates are run, not looked up: a shim may exist for a Python that does not.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.14 python; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        elif [ "$candidate" = "${PYTHON:-}" ]; then
            echo "PYTHON=$PYTHON is no Python of 3.11 or later with venv; looking for another" >&2
        fi
    done
    echo "no Python of 3.11 or later with the venv module was found (tried python3, python3.11 to 3.14, python);" \
        "install one (on Debian: python3 and python3-venv) or name it: make PYTHON=/path/to/python3 venv" >&2
    return 1
}

# A .venv that was moved (its programs name the old place) or whose Python is gone is made anew; one that works is
# brought up to date.
works() {
    .venv/bin/python -c 'import pip' 2>/dev/null && head -n 2 .venv/bin/pip | grep -qF "$PWD/.venv/bin/"
}

rm -f .venv/stamp
if ! works; then
    python=$(find_python)
    echo "making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
# uv stands in the lock like every other package, so that its hash is checked and `uv pip sync` keeps it.
awk '/^uv==/ { found = 1 } found { print } found && !/\\$/ { exit }' requirements.lock > .venv/uv.lock
.venv/bin/python -m pip install --quiet --no-deps --require-hashes -r .venv/uv.lock

uv() { .venv/bin/python -m uv "$@"; }
# pip reads settings that uv does not know (pip.conf): where uv finds no registry, pip may.
if ! uv pip sync --quiet --python .venv/bin/python --require-hashes requirements.lock; then
    echo "uv could not install the locked packages; trying pip" >&2
    .venv/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
fi
uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --offline --editable .
echo "$PWD" > .venv/stamp
