// Stands in for one of CANN's operator libraries: functions that say which library they are in.
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int aclnnEverywhere() { return FAKE_LIBRARY; }
#if FAKE_LIBRARY == 1
EXPORT int aclnnOnlyInTheFirst() { return 1; }
#else
EXPORT int aclnnOnlyInTheLast() { return 2; }
EXPORT bool CanUsePTACache(const char*) { return true; }
#endif
