#include "acl/library.h"

#include <c10/util/Exception.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "acl/config.h"
#include "acl/op_compiler.h"
#include "acl/runtime_symbol.h"

namespace npu::acl {

std::atomic<const Api*> detail::g_api{nullptr};

namespace {

constexpr const char* kUseSoftnpu = "Set TORCH_NPU_RUNTIME=soft to use the embedded software NPU instead.";

bool exists(const std::string& file) { return access(file.c_str(), F_OK) == 0; }
bool holds_softnpu(const std::string& folder) { return exists(folder + "/libsoftnpu.so"); }

void* find(const std::vector<void*>& libraries, const char* name) {
  for (void* library : libraries)
    if (void* symbol = dlsym(library, name)) return symbol;
  return nullptr;
}
#define NPU_ACL_RESOLVE(name) api.name = reinterpret_cast<decltype(api.name)>(find(libraries, #name));

struct Choice {
  Provider provider;
  std::string folder;
};

// The softnpu of this package, found from where this library lies: lib/libtorch_npu.so beside softnpu/lib64/.
std::string embedded_folder() {
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&embedded_folder), &self);
  const auto package = std::filesystem::path(self.dli_fname ? self.dli_fname : "").parent_path().parent_path();
  return package / "softnpu" / "lib64";
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// See Note [Providers].
Choice choose() {
  const auto wanted = config::runtime();
  std::vector<std::string> searched;
  std::string foreign_softnpu;
  if (wanted != config::Runtime::softnpu) {
    for (const auto& home : config::cann_homes()) {
      const std::string folder = home + "/lib64";
      if (holds_softnpu(folder)) {
        foreign_softnpu = folder;
      } else if (exists(folder + "/libascendcl.so")) {
        return {Provider::cann, folder};
      } else {
        searched.push_back(folder);
      }
    }
    TORCH_CHECK(wanted != config::Runtime::cann,
                "CANN was asked for (TORCH_NPU_RUNTIME=cann), but libascendcl.so was not found. Source CANN's "
                "set_env.sh, which sets ASCEND_HOME_PATH, or unset TORCH_NPU_RUNTIME.\nSearched: ",
                searched.empty() ? "nothing, ASCEND_HOME_PATH and ASCEND_TOOLKIT_HOME are not set" : join(searched));
    TORCH_CHECK(searched.empty() || !foreign_softnpu.empty(),
                "ASCEND_HOME_PATH or ASCEND_TOOLKIT_HOME asks for CANN, but libascendcl.so was not found. Source the "
                "set_env.sh of an installed CANN, or unset the variables. ",
                kUseSoftnpu, "\nSearched: ", join(searched));
  }
  const std::string embedded = embedded_folder();
  if (holds_softnpu(embedded)) return {Provider::softnpu, embedded};
  if (!foreign_softnpu.empty()) return {Provider::softnpu, foreign_softnpu};
  TORCH_CHECK(false,
              "The embedded software NPU is missing from this torch_npu package. Reinstall torch_npu, or source "
              "CANN's set_env.sh on a machine with Ascend cards.\nSearched: ",
              embedded, "/libsoftnpu.so");
}

bool is_out_of_descriptors() {
  const int descriptor = open("/", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno == EMFILE || errno == ENFILE;
  close(descriptor);
  return false;
}

struct OutOfDescriptors : std::runtime_error {
  using runtime_error::runtime_error;
};

void* open_library(const Choice& choice, const char* name) {
  const std::string file = choice.folder + "/" + name;
  void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);  // CANN's libraries name symbols that few cards need
  if (handle) return handle;
  const char* reason = dlerror();
  if (is_out_of_descriptors())
    throw OutOfDescriptors(
        c10::str(file, " could not be loaded: no file descriptor is left. Close files, or raise ulimit -n."));
  if (choice.provider == Provider::cann)
    TORCH_CHECK(false, "CANN's ", name,
                " could not be loaded. Source CANN's set_env.sh in this shell, and check that "
                "the Ascend driver is installed (in a container: mounted). ",
                kUseSoftnpu, "\n", reason);
  TORCH_CHECK(false, "softnpu's ", name,
              " could not be loaded. Reinstall torch_npu, with the torch it was built "
              "for.\n",
              reason);
}

// What was loaded, or why nothing was. Never unloaded.
struct Library {
  Choice choice{};
  Api api;
  std::string error;
  bool may_try_again = false;

  Library() {
    try {
      choice = choose();
      // First and by its path: the others need it by name, and LD_LIBRARY_PATH may lead to another softnpu.
      if (choice.provider == Provider::softnpu) open_library(choice, "libsoftnpu.so");
      // libnnopbase.so has the operator argument objects (aclCreateTensor, ...).
      const std::vector libraries{open_library(choice, "libascendcl.so"), open_library(choice, "libnnopbase.so")};
#define NPU_ACL_CHECK(name)                                          \
  TORCH_CHECK(api.name != nullptr, "The runtime in ", choice.folder, \
              " lacks " #name                                        \
              ". It is older than this "                             \
              "torch_npu supports; install a newer one. ",           \
              kUseSoftnpu);
      NPU_ACL_REQUIRED(NPU_ACL_RESOLVE)
      NPU_ACL_OPTIONAL(NPU_ACL_RESOLVE)
      NPU_ACL_REQUIRED(NPU_ACL_CHECK)
    } catch (const OutOfDescriptors& e) {
      error = e.what();
      may_try_again = true;
    } catch (const c10::Error& e) {
      error = e.msg();
    } catch (const std::exception& e) {
      error = e.what();
    }
  }
};

Library& library() {
  static std::atomic<Library*> current{nullptr};
  static std::mutex mutex;
  Library* found = current.load(std::memory_order_acquire);
  if (C10_LIKELY(found && !found->may_try_again)) return *found;
  std::lock_guard lock(mutex);
  found = current.load(std::memory_order_relaxed);
  if (!found || found->may_try_again) current.store(found = new Library, std::memory_order_release);
  return *found;
}

Library& loaded_library() {
  auto& lib = library();
  TORCH_CHECK(lib.error.empty(), lib.error);
  return lib;
}

std::vector<std::string> matching(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

// In the order in which operators are looked up: a user's own before CANN's, newer packages before older ones.
std::vector<void*> open_operator_libraries(Library& lib) {
  std::vector<void*> libraries;
  const auto add_if_loadable = [&](const std::string& file) {
    void* handle = exists(file) ? dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL) : nullptr;
    if (handle) libraries.push_back(handle);
  };
  const bool cann = lib.choice.provider == Provider::cann;
  if (cann) {
    for (const auto& custom : config::custom_operator_paths()) add_if_loadable(custom + "/op_api/lib/libcust_opapi.so");
    for (const auto& file : matching(lib.choice.folder + "/libopapi_*.so")) add_if_loadable(file);
  }
  libraries.push_back(open_library(lib.choice, "libopapi.so"));
  if (cann)
    for (const char* part : {"ops_infer", "ops_train", "math", "sparse", "fft", "rand"})
      add_if_loadable(lib.choice.folder + "/libaclnn_" + part + ".so");
  auto& api = lib.api;
  NPU_ACL_OPERATOR(NPU_ACL_RESOLVE)
  return libraries;
}

}  // namespace

const Api& detail::load_api() {
  const Api& api = loaded_library().api;
  g_api.store(&api, std::memory_order_release);
  return api;
}

bool available() noexcept { return library().error.empty(); }
const std::string& why_unavailable() { return library().error; }
Provider provider() { return loaded_library().choice.provider; }
const std::string& path() { return loaded_library().choice.folder; }

void* op_symbol(const char* name) {
  static const auto libraries = open_operator_libraries(loaded_library());
  return find(libraries, name);
}

void* hccl_symbol(const char* name) {
  static void* const handle = open_library(loaded_library().choice, "libhccl.so");
  return dlsym(handle, name);
}

void* runtime_symbol(const char* name) {
  static void* const handle = open_library(loaded_library().choice, "libascendcl.so");
  return dlsym(handle, name);
}

void* op_compiler_symbol(const char* name) {
  static void* const handle = open_library(loaded_library().choice, "libacl_op_compiler.so");
  return dlsym(handle, name);
}

}  // namespace npu::acl
