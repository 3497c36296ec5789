/* A runtime library whose events take no time, for test_verify.py; everything else is softnpu's. */
int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
  *milliseconds = 0;
  return 0;
}
