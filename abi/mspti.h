// libmspti.so: records of what a card did, in buffers of the client. Names, values and layouts are facts of
// Ascend/mspti (Mulan PSL v2); only what softnpu has is declared. Records are packed and begin at multiples of eight
// bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  MSPTI_SUCCESS = 0,
  MSPTI_ERROR_INVALID_PARAMETER = 1,
  MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 2,
  MSPTI_ERROR_MAX_LIMIT_REACHED = 3,
  MSPTI_ERROR_QUEUE_EMPTY = 5,
  MSPTI_ERROR_NOT_INITIALIZED = 7,
  MSPTI_ERROR_INVALID_KIND = 8,
} msptiResult;

typedef enum {
  MSPTI_ACTIVITY_KIND_INVALID = 0,
  MSPTI_ACTIVITY_KIND_KERNEL = 2,
  MSPTI_ACTIVITY_KIND_MEMSET = 6,
  MSPTI_ACTIVITY_KIND_MEMCPY = 7,
  MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 8,
  MSPTI_ACTIVITY_KIND_COMMUNICATION = 9,
  MSPTI_ACTIVITY_KIND_ACL_API = 10,
  MSPTI_ACTIVITY_KIND_FORCE_INT = 0x7fffffff,
} msptiActivityKind;

typedef enum {
  MSPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
  MSPTI_EXTERNAL_CORRELATION_KIND_SIZE = 5,
  MSPTI_EXTERNAL_CORRELATION_KIND_FORCE_INT = 0x7fffffff,
} msptiExternalCorrelationKind;

#define MSPTI_ACTIVITY_MEMCPY_KIND_DEFAULT 5
#define MSPTI_ACTIVITY_COMMUNICATION_INVALID_TYPE 0xffff
#define MSPTI_RECORD __attribute__((__packed__)) __attribute__((aligned(8)))

typedef struct MSPTI_RECORD {
  int32_t kind;
} msptiActivity;

typedef struct MSPTI_RECORD {
  int32_t kind;
  uint64_t start, end;
  uint32_t deviceId, streamId;
  uint64_t correlationId;
  const char *type, *name;
} msptiActivityKernel;

typedef struct MSPTI_RECORD {
  int32_t kind;
  uint64_t start, end;
  uint32_t processId, threadId;
  uint64_t correlationId;
  const char* name;
} msptiActivityApi;

typedef struct MSPTI_RECORD {
  int32_t kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t deviceId, streamId;
  uint64_t correlationId;
  uint8_t isAsync;
} msptiActivityMemset;

typedef struct MSPTI_RECORD {
  int32_t kind, copyKind;
  uint64_t bytes, start, end;
  uint32_t deviceId, streamId;
  uint64_t correlationId;
  uint8_t isAsync;
} msptiActivityMemcpy;

typedef struct MSPTI_RECORD {
  int32_t kind, externalKind;
  uint64_t externalId, correlationId;
} msptiActivityExternalCorrelation;

typedef struct MSPTI_RECORD {
  int32_t kind, dataType;
  uint64_t count;
  uint32_t deviceId, streamId;
  uint64_t start, end;
  const char *algType, *name, *commName;
  uint64_t correlationId;
} msptiActivityCommunication;

typedef struct msptiSubscriber* msptiSubscriberHandle;
typedef void (*msptiCallbackFunc)(void* userdata, int domain, uint32_t id, const void* data);
typedef void (*msptiBuffersCallbackRequestFunc)(uint8_t** buffer, size_t* size, size_t* maxNumRecords);
typedef void (*msptiBuffersCallbackCompleteFunc)(uint8_t* buffer, size_t size, size_t validSize);

msptiResult msptiSubscribe(msptiSubscriberHandle* subscriber, msptiCallbackFunc callback, void* userdata);
msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber);
msptiResult msptiActivityRegisterCallbacks(msptiBuffersCallbackRequestFunc requested,
                                           msptiBuffersCallbackCompleteFunc completed);
msptiResult msptiActivityEnable(msptiActivityKind kind);
msptiResult msptiActivityDisable(msptiActivityKind kind);
bool msptiActivityIsEnabled(msptiActivityKind kind);
msptiResult msptiActivityGetNextRecord(uint8_t* buffer, size_t validBytes, msptiActivity** record);
msptiResult msptiActivityFlushAll(uint32_t flag);
msptiResult msptiActivityPushExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t id);
msptiResult msptiActivityPopExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t* lastId);

#ifdef __cplusplus
}
#endif
