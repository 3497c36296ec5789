// torch_npu._C.CapturedCall: a graph of torch.compile that was captured, called with its inputs.
// torch_npu/dynamo/capture.py makes it and holds its lock during a call; what is done for every call is here, for it
// has to cost less than the launches it saves.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "python/module.h"
#include "runtime/capture.h"
#include "runtime/stream.h"

namespace npu::python {
namespace {

template <typename Value>
using Numbered = std::vector<std::pair<size_t, Value>>;  // by the number of an input or a result

const at::Tensor& tensor_at(const py::list& list, size_t number) {
  return THPVariable_Unpack(PyList_GET_ITEM(list.ptr(), static_cast<Py_ssize_t>(number)));
}

// Each element once: an expanded tensor without its repetitions.
at::Tensor once(at::Tensor tensor) {
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) tensor = tensor.narrow(dim, 0, 1);
  return tensor;
}

// Results in the memory of a graph, and whether the program has some of them.
struct Results {
  Numbered<at::Tensor> own;
  std::vector<size_t> uses;  // of their storages, while the program has none of them

  explicit Results(Numbered<at::Tensor> tensors) : own(std::move(tensors)) {
    for (const auto& [number, tensor] : own) uses.push_back(tensor.storage().use_count());
  }
  bool is_in_use(size_t i) const { return own[i].second.storage().use_count() > uses[i]; }
  bool is_in_use() const {
    for (size_t i = 0; i < own.size(); ++i)
      if (is_in_use(i)) return true;
    return false;
  }
};

// Of the calls that share memory, in the order of their captures. See Note [Results in shared memory] in capture.py.
// What the program still has of a call that is gone stays here.
struct CaptureOrder {
  std::vector<std::shared_ptr<const Results>> results;
};

class CapturedCall {
 public:
  // places: where inputs are that the graph reads as they come; numbers: inputs that are no tensors; copies: the
  // tensors that the graph reads instead of other inputs, and whether it writes them; passed: results that are inputs.
  CapturedCall(py::object replay, Numbered<uintptr_t> places, Numbered<int64_t> numbers,
               std::vector<std::tuple<size_t, at::Tensor, bool>> copies, py::list results, Numbered<size_t> passed,
               Numbered<at::Tensor> own, std::shared_ptr<CaptureOrder> order)
      : replay_(std::move(replay)),
        stream_(current_stream()),
        places_(std::move(places)),
        numbers_(std::move(numbers)),
        results_(std::move(results)),
        passed_(std::move(passed)),
        results_in_graph_(std::make_shared<Results>(std::move(own))),
        order_(std::move(order)) {
    if (order_) {
      std::erase_if(order_->results, [](const auto& each) { return each.use_count() == 1 && !each->is_in_use(); });
      order_->results.push_back(results_in_graph_);
    }
    for (auto& [number, tensor, written] : copies) copies_.push_back({number, once(tensor), written});
  }

  ~CapturedCall() {
    if (order_ && !results_in_graph_->is_in_use()) std::erase(order_->results, results_in_graph_);
  }
  CapturedCall(const CapturedCall&) = delete;

  // Whether these inputs, on the current stream, are the ones that it was captured for.
  bool fits(const py::list& inputs) const {
    if (!(current_stream() == stream_) || (captures::any() && captures::of_current_stream())) return false;
    for (const auto& [number, value] : numbers_)
      if (PyLong_AsLongLong(PyList_GET_ITEM(inputs.ptr(), static_cast<Py_ssize_t>(number))) != value) return false;
    for (const auto& [number, address] : places_)
      if (reinterpret_cast<uintptr_t>(tensor_at(inputs, number).const_data_ptr()) != address) return false;
    return true;
  }

  // Whether it fits, and would not overwrite what the program has of its results or of those of later captures.
  bool can_run(const py::list& inputs) const {
    if (!fits(inputs) || results_in_graph_->is_in_use()) return false;
    if (!order_) return true;
    const auto& all = order_->results;
    return std::none_of(std::find(all.begin(), all.end(), results_in_graph_) + 1, all.end(),
                        [](const auto& later) { return later->is_in_use(); });
  }

  // Whether it was captured later than `other`, into the same memory.
  bool follows(const CapturedCall& other) const {
    if (!order_ || order_ != other.order_) return false;
    const auto& all = order_->results;
    return std::find(all.begin(), all.end(), other.results_in_graph_) <
           std::find(all.begin(), all.end(), results_in_graph_);
  }

  // The numbers of the results that the program still has.
  std::vector<size_t> in_use() const {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < results_in_graph_->own.size(); ++i)
      if (results_in_graph_->is_in_use(i)) numbers.push_back(results_in_graph_->own[i].first);
    return numbers;
  }

  py::list replay(const py::list& inputs) const {
    const at::NoGradGuard no_grad;
    for (const auto& [number, copy, written] : copies_) copy.copy_(once(tensor_at(inputs, number)));
    replay_();
    for (const auto& [number, copy, written] : copies_)
      if (written) once(tensor_at(inputs, number)).copy_(copy);
    py::list results(results_.size());
    for (size_t i = 0; i < results_.size(); ++i) results[i] = results_[i];
    for (const auto& [result, input] : passed_) results[result] = inputs[input];
    for (const auto& [number, tensor] : results_in_graph_->own) results[number] = py::cast(tensor.variable_data());
    return results;
  }

 private:
  struct Copy {
    size_t number;
    at::Tensor tensor;
    bool written;
  };

  const py::object replay_;
  const Stream stream_;
  const Numbered<uintptr_t> places_;
  const Numbered<int64_t> numbers_;
  std::vector<Copy> copies_;
  const py::list results_;
  const Numbered<size_t> passed_;
  const std::shared_ptr<const Results> results_in_graph_;
  const std::shared_ptr<CaptureOrder> order_;  // null: the memory is its own
};

}  // namespace

void bind_captured_call(py::module_& module) {
  using torch::wrap_pybind_function;
  py::class_<CaptureOrder, std::shared_ptr<CaptureOrder>>(module, "CaptureOrder").def(py::init<>());
  py::class_<CapturedCall>(module, "CapturedCall")
      .def(py::init(wrap_pybind_function([](py::object replay, Numbered<uintptr_t> places, Numbered<int64_t> numbers,
                                            std::vector<std::tuple<size_t, at::Tensor, bool>> copies, py::list results,
                                            Numbered<size_t> passed, Numbered<at::Tensor> own,
                                            std::shared_ptr<CaptureOrder> order) {
             return std::make_unique<CapturedCall>(std::move(replay), std::move(places), std::move(numbers),
                                                   std::move(copies), std::move(results), std::move(passed),
                                                   std::move(own), std::move(order));
           })),
           py::kw_only(), py::arg("replay"), py::arg("places"), py::arg("numbers"), py::arg("copies"),
           py::arg("results"), py::arg("passed"), py::arg("own"), py::arg("order"))
      .def("can_run",
           wrap_pybind_function([](const CapturedCall& self, const py::list& inputs) { return self.can_run(inputs); }))
      .def("follows", wrap_pybind_function(
                          [](const CapturedCall& self, const CapturedCall& other) { return self.follows(other); }))
      .def("fits",
           wrap_pybind_function([](const CapturedCall& self, const py::list& inputs) { return self.fits(inputs); }))
      .def("in_use", wrap_pybind_function([](const CapturedCall& self) { return self.in_use(); }))
      .def("replay",
           wrap_pybind_function([](const CapturedCall& self, const py::list& inputs) { return self.replay(inputs); }));
}

}  // namespace npu::python
