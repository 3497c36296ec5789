// What a rank's process does: see World in ranks.h.
#include "ranks.h"

CHILD(rank) {
  try {
    const std::string scenario = test::ask();
    test::Rank r{};
    r.ranks = static_cast<uint32_t>(std::stoi(test::ask()));
    r.rank = static_cast<uint32_t>(std::stoi(test::ask()));
    test::check(aclrtSetDevice(static_cast<int>(r.rank % 8)));
    HcclRootInfo info{};
    if (r.rank == 0) {
      test::check(HcclGetRootInfo(&info));
      test::tell(test::hex(info));
    } else {
      info = test::unhex(test::ask());
    }
    test::check(HcclCommInitRootInfo(r.ranks, &info, r.rank, &r.comm));
    test::check(aclrtCreateStream(&r.stream));
    test::scenarios().at(scenario)(r);
    test::check(HcclCommDestroy(r.comm));
  } catch (const std::exception& e) {
    test::tell(e.what());
    return 1;
  }
  test::tell("done");
  return 0;
}
