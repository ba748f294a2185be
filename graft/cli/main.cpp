#include "graft/cli/commands.h"

int main(int argc, char** argv) {
  return graft::cli::run(argc, argv);
}
