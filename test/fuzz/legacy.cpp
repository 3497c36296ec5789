// Operators of the interface before aclnn: descriptors and buffers of one family of shapes and types, constants of the
// host, attributes of the kinds that the operator has; now and then other counts, formats, kinds, names and handles.
#include <cstring>

#include "steps.h"

namespace fuzz {

namespace {

constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT8,        ACL_INT32,
                                  ACL_INT64, ACL_UINT8,   ACL_BOOL, ACL_INT4,   ACL_DT_UNDEFINED};
constexpr aclFormat kFormats[] = {ACL_FORMAT_NCHW,     ACL_FORMAT_NHWC,  ACL_FORMAT_FRACTAL_NZ, ACL_FORMAT_NC1HWC0,
                                  ACL_FORMAT_NDC1HWC0, ACL_FORMAT_NCDHW, ACL_FORMAT_FRACTAL_Z};
constexpr const char* kWords[] = {"iou",  "iof",   "LSTM", "UNIDIRECTIONAL", "REDIRECTIONAL", "tanh", "ijfo",
                                  "ifjo", "rzh",   "NCHW", "NCDHW",          "NHWC",          "",     "zrh",
                                  "sum",  "batch", "none", "concat",         "sigmoid",       "iijf"};

class Call {
 public:
  explicit Call(Values& values) : values_(values), random_(values.random) {
    rank_ = random_.below(6);
    const bool cube = random_.one_in(3);
    for (int64_t& size : sizes_)
      size = cube && &size != sizes_ ? sizes_[0] : 1 + static_cast<int64_t>(random_.below(5));
    type_ = random_.one_in(4) ? random_.one_of(kTypes) : ACL_FLOAT;
    attributes_ = ACL(aclopCreateAttr)();
    keep(Kind::attributes, attributes_);
  }
  ~Call() {
    for (const aclTensorDesc* desc : made_descs_) ACL(aclDestroyTensorDesc)(desc);
    for (const aclDataBuffer* buffer : made_buffers_) ACL(aclDestroyDataBuffer)(buffer);
    ACL(aclopDestroyAttr)(attributes_);
  }
  Call(const Call&) = delete;

  Arguments arguments(const Target& target) {
    for (const Parameter& p : target.parameters) add(p);
    if (random_.one_in(20)) set("int", "another");
    if (random_.one_in(20)) add({"Tensor", "more"});
    Arguments a;
    a.add(target.name.c_str());
    add_list(a, inputs_);
    add_list(a, outputs_);
    a.add(random_.one_in(40) ? values_.handle(Kind::attributes) : reinterpret_cast<uint64_t>(attributes_));
    a.add(uint64_t{0}), a.add(uint64_t{0}), a.add(uint64_t{0});
    a.add(random_.one_in(2) ? 0 : values_.handle(Kind::stream));
    return a;
  }

 private:
  struct List {
    std::vector<uint64_t> descs, buffers;
  };

  template <class T>
  void keep(Kind kind, const T* object) {
    if (object) values_.pool().put(kind, reinterpret_cast<uint64_t>(object));
  }

  void add_list(Arguments& a, const List& list) {
    const uint64_t count = random_.one_in(40) ? static_cast<uint64_t>(values_.integer()) % 6 : list.descs.size();
    auto* descs = static_cast<uint64_t*>(values_.zeros());
    auto* buffers = static_cast<uint64_t*>(values_.zeros());
    std::copy(list.descs.begin(), list.descs.end(), descs);
    std::copy(list.buffers.begin(), list.buffers.end(), buffers);
    a.add(count), a.add(descs), a.add(buffers);
  }

  void add(const Parameter& p) {
    if (p.type.rfind("Tensor", 0) != 0) return set(p.type, p.name.c_str());
    const bool output = p.type.back() == '!';
    const uint64_t count = p.type == "Tensor[]" ? random_.below(4) : 1;
    for (uint64_t i = 0; i < count; i++) {
      const bool missing = p.type.back() == '?' && random_.one_in(2);
      add_tensor(output ? outputs_ : inputs_, p, missing, output);
    }
  }

  void add_tensor(List& list, const Parameter& p, bool missing, bool output) {
    int64_t sizes[8];
    int rank = static_cast<int>(random_.one_in(6) ? random_.below(6) : rank_);
    int64_t elements = 1;
    for (int d = 0; d < rank; d++) {
      sizes[d] = random_.one_in(12) ? static_cast<int64_t>(random_.below(4)) : sizes_[d];
      if (random_.one_in(60)) sizes[d] = values_.integer();
      elements *= sizes[d] > 0 && sizes[d] < 64 ? sizes[d] : 1;
    }
    const bool whole = whole_numbers(p.name);
    const aclDataType type = missing              ? ACL_DT_UNDEFINED
                             : random_.one_in(10) ? random_.one_of(kTypes)
                             : whole              ? (random_.one_in(2) ? ACL_INT32 : ACL_INT64)
                                                  : type_;
    if (whole && random_.one_in(3)) sizes[0] = static_cast<int64_t>(rank_), rank = 1, elements = sizes[0];
    aclTensorDesc* desc = ACL(aclCreateTensorDesc)(type, missing ? 0 : rank, sizes, format_of(rank));
    const bool host = !output && !missing && (whole ? !random_.one_in(4) : random_.one_in(12));
    if (host) ACL(aclSetTensorPlaceMent)(desc, ACL_MEMTYPE_HOST);
    if (random_.one_in(25)) ACL(aclSetTensorDescName)(desc, random_.one_in(2) ? p.name.c_str() : "nothing");
    if (random_.one_in(12)) store_blocks(desc, sizes, rank);
    void* data = static_cast<char*>(values_.block()) + 64 * random_.below(kCard / 128);
    size_t bytes = random_.one_in(20) ? values_.bytes() : kCard / 4;
    if (host) {  // memory of the caller's must be there
      data = random_.one_in(25) ? values_.block() : values_.numbers();
      bytes = kScratch;
    } else if (random_.one_in(40)) {
      data = reinterpret_cast<void*>(values_.foreign(Kind::memory));
    }
    aclDataBuffer* buffer = ACL(aclCreateDataBuffer)(missing ? nullptr : data, missing ? 0 : bytes);
    made_descs_.push_back(desc), made_buffers_.push_back(buffer);
    keep(Kind::desc, desc);  // ends with this call: others meet it dead, and of other threads alive
    list.descs.push_back(random_.one_in(60) ? values_.handle(Kind::desc) : reinterpret_cast<uint64_t>(desc));
    list.buffers.push_back(random_.one_in(60) ? values_.handle(Kind::buffer) : reinterpret_cast<uint64_t>(buffer));
  }

  static bool whole_numbers(const std::string& name) {
    for (const char* part : {"size", "shape", "dims", "axes", "begin", "end", "strides", "perm", "paddings", "offsets",
                             "depth", "ind", "seq_len", "start"})
      if (name.find(part) != std::string::npos) return true;
    return false;
  }

  aclFormat format_of(int rank) {
    if (random_.one_in(20)) return random_.one_of(kFormats);
    return rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
  }

  void store_blocks(aclTensorDesc* desc, const int64_t* sizes, int rank) {
    const aclFormat format = random_.one_of(kFormats);
    std::vector<int64_t> stored(sizes, sizes + rank);
    if (format == ACL_FORMAT_FRACTAL_NZ && rank >= 2 && rank < 6) {
      stored.resize(rank - 2);
      stored.insert(stored.end(), {(sizes[rank - 1] + 7) / 8, (sizes[rank - 2] + 15) / 16, 16, 8});
    } else if (rank == 4) {
      stored = {sizes[0], (sizes[1] + 7) / 8, sizes[2], sizes[3], 8};
    }
    if (random_.one_in(8)) stored.push_back(values_.integer());
    ACL(aclSetTensorFormat)(desc, format);
    ACL(aclSetTensorShape)(desc, static_cast<int>(stored.size()), stored.data());
  }

  void set(const std::string& given, const char* name) {
    if (random_.one_in(25)) return;
    constexpr const char* kKinds[] = {"bool", "int", "float", "str", "int[]", "float[]", "bool[]", "dtype", "lists"};
    const std::string kind = random_.one_in(40) ? random_.one_of(kKinds) : given;
    const int count = static_cast<int>(random_.one_in(3) ? random_.below(7) : rank_);
    int64_t numbers[8];
    float reals[8];
    for (int i = 0; i < 8; i++) {
      numbers[i] = random_.one_in(4) ? values_.integer() : 1;
      reals[i] = static_cast<float>(values_.real());
    }
    const uint8_t flags[8] = {1, 0, 1, 1};
    const int counts[8] = {1, 2, 3, 0, 8, 1, 1, 1};
    const int64_t* lists[8] = {numbers, numbers, numbers, numbers, numbers, numbers, numbers, numbers};
    if (kind == "bool") ACL(aclopSetAttrBool)(attributes_, name, static_cast<uint8_t>(random_.below(2)));
    if (kind == "int") ACL(aclopSetAttrInt)(attributes_, name, values_.integer());
    if (kind == "float") ACL(aclopSetAttrFloat)(attributes_, name, random_.one_in(2) ? 1 : reals[0]);
    if (kind == "str") ACL(aclopSetAttrString)(attributes_, name, random_.one_of(kWords));
    if (kind == "int[]") ACL(aclopSetAttrListInt)(attributes_, name, count, numbers);
    if (kind == "float[]") ACL(aclopSetAttrListFloat)(attributes_, name, count, reals);
    if (kind == "bool[]") ACL(aclopSetAttrListBool)(attributes_, name, count, flags);
    if (kind == "dtype") ACL(aclopSetAttrDataType)(attributes_, name, random_.one_of(kTypes));
    if (kind == "lists") ACL(aclopSetAttrListListInt)(attributes_, name, count, counts, lists);
  }

  Values& values_;
  Random& random_;
  uint64_t rank_;
  int64_t sizes_[8] = {1};
  aclDataType type_;
  aclopAttr* attributes_ = nullptr;
  List inputs_, outputs_;
  std::vector<const aclTensorDesc*> made_descs_;
  std::vector<const aclDataBuffer*> made_buffers_;
};

}  // namespace

void call_legacy(const Target& target, Values& values, Journal& journal) {
  Call call(values);
  make_call(target.name.c_str(), target.one, call.arguments(target), journal);
}

}  // namespace fuzz
