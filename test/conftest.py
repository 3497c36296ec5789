"""For all tests: capacity of the cards is shared by the processes of a user, so every pytest process counts in a folder of its own."""

import os
import tempfile

_folder = tempfile.TemporaryDirectory(prefix="softnpu-records-")
os.environ["XDG_RUNTIME_DIR"] = _folder.name
