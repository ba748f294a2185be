// graft_make_model OUT.gguf: a 1.5 B parameter model of random weights, for comparing programs.

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "graft/base/error.h"

#include "bench/model_file.h"

int main(int argc, char** argv) {
  CLI::App app("Writes a GGUF model of random weights");
  std::string out;
  std::string type = "F16";
  graft::bench::ModelShape shape;
  app.add_option("OUT", out)->required();
  app.add_option("--type", type);
  app.add_option("--layers", shape.num_layers);
  app.add_option("--vocab", shape.vocab_size);
  CLI11_PARSE(app, argc, argv);
  const auto dtype = graft::dtype_from_name(type);
  if (!dtype) {
    std::fprintf(stderr, "unknown type %s\n", type.c_str());
    return 2;
  }
  shape.dtype = *dtype;
  try {
    graft::bench::write_model(out, shape);
  } catch (const graft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
