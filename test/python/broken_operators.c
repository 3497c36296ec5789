/* Operators that are broken on purpose, for test_verify.py: looked up before the provider's own (ASCEND_CUSTOM_OPP_PATH). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*PhaseOne)(const void*, void*, uint64_t*, void**);
typedef int (*PhaseTwo)(void*, uint64_t, void*, void*);

static void* provider(const char* name) {
  char file[4096];
  snprintf(file, sizeof file, "%s/lib64/libopapi.so", getenv("ASCEND_HOME_PATH"));
  return dlsym(dlopen(file, RTLD_LAZY), name);
}

/* Wrong numbers: tanh is the sigmoid. */
int aclnnTanhGetWorkspaceSize(const void* self, void* out, uint64_t* size, void** executor) {
  return ((PhaseOne)provider("aclnnSigmoidGetWorkspaceSize"))(self, out, size, executor);
}
int aclnnTanh(void* workspace, uint64_t size, void* executor, void* stream) {
  return ((PhaseTwo)provider("aclnnSigmoid"))(workspace, size, executor, stream);
}

/* A refusal. */
int aclnnErfGetWorkspaceSize(const void* self, void* out, uint64_t* size, void** executor) { return 161002; }
int aclnnErf(void* workspace, uint64_t size, void* executor, void* stream) { return 161002; }

/* A hang. */
int aclnnAtanGetWorkspaceSize(const void* self, void* out, uint64_t* size, void** executor) {
  return ((PhaseOne)provider("aclnnAtanGetWorkspaceSize"))(self, out, size, executor);
}
int aclnnAtan(void* workspace, uint64_t size, void* executor, void* stream) {
  for (;;) pause();
}

/* A crash. */
int aclnnCosGetWorkspaceSize(const void* self, void* out, uint64_t* size, void** executor) {
  return ((PhaseOne)provider("aclnnCosGetWorkspaceSize"))(self, out, size, executor);
}
int aclnnCos(void* workspace, uint64_t size, void* executor, void* stream) {
  *(volatile int*)16 = 1; /* raise() would do nothing in a thread that blocks signals */
  return 0;
}
