// Graphs: capture, launch, exchange of tasks, description.
#include "runtime/graph.h"

#include <cstdio>

#include "entry.h"

using namespace softnpu;

namespace {

std::shared_ptr<Graph> graph_of(Stream& stream) {
  const auto graph = stream.diversion() == Stream::Diversion::capture ? stream.graph() : nullptr;
  if (!graph) fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream.id());
  return graph;
}

void write_string(FILE* file, const std::string& text) {
  fputc('"', file);
  for (const char c : text) {
    if (c == '"' || c == '\\') fputc('\\', file);
    static_cast<unsigned char>(c) < ' ' ? fprintf(file, "\\u%04x", c) : fputc(c, file);
  }
  fputc('"', file);
}

}  // namespace

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  return guard("aclmdlRICaptureBegin", [&] {
    note("stream", stream), note("mode", mode);
    begin_capture(Stream::launchable(stream), mode);
  });
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* model) {
  return guard("aclmdlRICaptureEnd", [&] {
    *required(model, "modelRI") = nullptr;
    Stream& captured = Stream::launchable(stream);
    const auto graph = graph_of(captured);
    try {
      graph->end(captured);
    } catch (...) {
      if (!graph->capturing()) Model::destroy(&graph->handle());
      throw;
    }
    *model = &graph->handle();
  });
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* model) {
  return guard("aclmdlRICaptureGetInfo", [&] {
    Stream& asked = Stream::checked(stream);
    const auto graph = asked.diversion() == Stream::Diversion::capture ? asked.graph() : nullptr;
    *required(status, "status") = !graph             ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
                                  : graph->invalid() ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                                                     : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    if (model) *model = graph ? &graph->handle() : nullptr;
  });
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  return guard("aclmdlRICaptureThreadExchangeMode", [&] { *mode = exchange_capture_mode(*required(mode, "mode")); });
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  return guard("aclmdlRICaptureTaskGrpBegin", [&] { graph_of(Stream::launchable(stream))->begin_group(); });
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
  return guard("aclmdlRICaptureTaskGrpEnd",
               [&] { *required(handle, "handle") = graph_of(Stream::launchable(stream))->end_group(); });
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
  return guard("aclmdlRICaptureTaskUpdateBegin",
               [&] { begin_update(Stream::launchable(stream), required(handle, "handle")); });
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  return guard("aclmdlRICaptureTaskUpdateEnd", [&] { end_update(Stream::launchable(stream)); });
}

aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream) {
  return guard("aclmdlRIExecuteAsync", [&] {
    note("stream", stream);
    Model::checked(required(model, "modelRI"))->launch(Stream::launchable(stream));
  });
}

aclError aclmdlRIDestroy(aclmdlRI model) {
  return guard_release("aclmdlRIDestroy", [&] { Model::destroy(required(model, "modelRI")); });
}

aclError aclmdlRIGetId(aclmdlRI model, uint32_t* id) {
  return guard("aclmdlRIGetId", [&] { *required(id, "modelRIId") = Model::checked(required(model, "modelRI"))->id(); });
}

aclError aclmdlRIDebugPrint(aclmdlRI model) {
  return guard("aclmdlRIDebugPrint", [&] {
    const auto graph = Model::checked(required(model, "modelRI"));
    const auto nodes = graph->describe();
    printf("graph %u: %zu tasks\n", graph->id(), nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) printf("%6zu stream %d: %s\n", i, nodes[i].stream, nodes[i].text.c_str());
    fflush(stdout);
  });
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI model, const char* path, uint32_t flags) {
  return guard("aclmdlRIDebugJsonPrint", [&] {
    const auto graph = Model::checked(required(model, "modelRI"));
    if (flags != 0 && flags != 1) fail(ACL_ERROR_RT_PARAM_INVALID, "flags %u has unknown bits", flags);
    FILE* file = fopen(required(path, "path"), "w");
    if (!file) fail(ACL_ERROR_RT_FILE_WRITE, "cannot write '%s'", path);
    fprintf(file, "{\"graph\": %u, \"tasks\": [", graph->id());
    const char* separator = "\n";
    for (const auto& node : graph->describe()) {
      fprintf(file, "%s  {\"stream\": %d, \"name\": ", separator, node.stream);
      write_string(file, node.name);
      if (flags == 1) fputs(", \"arguments\": ", file), write_string(file, node.text);
      fputc('}', file);
      separator = ",\n";
    }
    fputs("\n]}\n", file);
    if (fclose(file) != 0) fail(ACL_ERROR_RT_FILE_WRITE, "cannot write '%s'", path);
  });
}
