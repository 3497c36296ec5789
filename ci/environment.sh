# Sourced by run.sh and test.sh, in the repository root: makes sure that a virtual environment is active (the caller's,
# else .venv, created on the first run) and holds what requirements file $1 names. Downloads only what is missing.
if [ -z "${VIRTUAL_ENV:-}" ]; then
  if [ ! -x .venv/bin/python ]; then
    base=python3
    command -v python3.11 >/dev/null && base=python3.11
    "$base" -m venv .venv || {
      rm -rf .venv
      echo "$base cannot make a virtual environment; cure: apt-get install $base-venv" >&2
      exit 1
    }
  fi
  . .venv/bin/activate
fi
python -m pip install --quiet --disable-pip-version-check -r "$1"
