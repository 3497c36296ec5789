// A shim library has no code of its own; see softnpu/CMakeLists.txt.
