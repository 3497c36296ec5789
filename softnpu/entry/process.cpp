// Process-wide: initialisation, messages, versions, attributes, options.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "entry.h"
#include "runtime/config.h"
#include "runtime/context.h"
#include "runtime/initialization.h"
#include "runtime/settings.h"
#include "runtime/soc.h"

using namespace softnpu;

namespace {

// The CANN release whose interface softnpu has.
constexpr char kVersion[] = "9.2.0";

constexpr aclCannAttr kAttributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};

}  // namespace

aclError aclInit(const char* config_path) {
  return guard("aclInit", [&] { initialize(config_path); });
}

aclError aclFinalize(void) {
  return guard_release("aclFinalize", [] { finalize(); });
}

const char* aclGetRecentErrMsg(void) { return take_message(); }

aclError aclrtGetLastError(aclrtLastErrLevel) { return last_code(true); }

aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return last_code(false); }

void aclAppLog(aclLogLevel level, const char* function, const char* file, uint32_t line, const char* format, ...) {
  if (static_cast<int>(level) < config().log_level || !format) return;
  const int index = level < ACL_DEBUG || level > ACL_ERROR ? ACL_ERROR : level;
  static constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "[%s] %s:%u %s: %s\n", kNames[index], file ? file : "", line, function ? function : "", text);
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  return guard("aclsysGetCANNVersion", [&] {
    if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER)
      fail(ACL_ERROR_INVALID_PARAM, "name %d is no package", static_cast<int>(name));
    memset(required(version, "version"), 0, sizeof *version);
    strcpy(version->version, kVersion);
    version->majorVersion[0] = kVersion[0];
    version->minorVersion[0] = kVersion[2];
    version->releaseVersion[0] = kVersion[4];
  });
}

aclError aclsysGetVersionStr(char* package, char* version) {
  return guard("aclsysGetVersionStr", [&] {
    required(package, "pkgName");
    strcpy(required(version, "versionStr"), kVersion);
  });
}

aclError aclGetCannAttributeList(const aclCannAttr** list, size_t* count) {
  return guard("aclGetCannAttributeList", [&] {
    *required(list, "cannAttrList") = kAttributes;
    *required(count, "num") = std::size(kAttributes);
  });
}

aclError aclGetCannAttribute(aclCannAttr attribute, int32_t* value) {
  return guard("aclGetCannAttribute", [&] {
    required(value, "num");
    switch (attribute) {
      case ACL_CANN_ATTR_INF_NAN:
        *value = 1;
        return;
      case ACL_CANN_ATTR_BF16:
        *value = checked_config().soc->bf16;
        return;
      case ACL_CANN_ATTR_JIT_COMPILE:
        *value = 0;
        return;
      default:
        fail(ACL_ERROR_INVALID_PARAM, "attribute %d is unknown", static_cast<int>(attribute));
    }
  });
}

// Declared as a code, it is the number of bytes that aclGetCompileopt needs, 0 when the option is unknown.
aclError aclGetCompileoptSize(aclCompileOpt option) {
  aclError size = 0;
  guard("aclGetCompileoptSize", [&] { size = static_cast<aclError>(compile_option(option).size() + 1); });
  return size;
}

aclError aclGetCompileopt(aclCompileOpt option, char* value, size_t length) {
  return guard("aclGetCompileopt", [&] {
    const std::string text = compile_option(option);
    required(value, "value");
    if (length <= text.size())
      fail(ACL_ERROR_INVALID_PARAM, "length %zu is too small for %zu bytes", length, text.size() + 1);
    memcpy(value, text.c_str(), text.size() + 1);
  });
}

aclError aclSetCompileopt(aclCompileOpt option, const char* value) {
  return guard("aclSetCompileopt", [&] { set_compile_option(option, required(value, "value")); });
}
