"""The log of environment variables that were read: logger "torch_npu.env"."""

import logging

loggerEnv = logging.getLogger("torch_npu.env")
_seen: set[str] = set()


def _log_once(key: str, val):
    """Logs a variable and its value, the first time."""
    if key not in _seen:
        _seen.add(key)
        loggerEnv.info("environment: %s=%s", key, val)
