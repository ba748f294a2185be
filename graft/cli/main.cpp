#include <cstdio>

int main() {
  std::puts("graft");
  return 0;
}
