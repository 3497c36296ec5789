// What can be called: every function of the headers and every operator of the tables that the libraries export, and the
// operators that aclopCompileAndExecute knows by name.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace fuzz {

struct Parameter {
  std::string type, name;  // "const int64_t*", "view_dims"
};

struct Target {
  std::string name, result;
  std::vector<Parameter> parameters;
  void* one = nullptr;  // the function, or an operator's phase one
  void* two = nullptr;
};

struct Selection {
  std::string only;  // the target of this name; where there is none, all whose names contain it
  std::set<std::string> without;
};

// Their names alone: loads no library.
std::vector<std::string> names(const Selection& selection);

struct Targets {
  std::vector<Target> functions, operators, legacy;
};
Targets find(const Selection& selection);

}  // namespace fuzz
