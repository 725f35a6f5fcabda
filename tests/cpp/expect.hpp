// What C++ tests expect: failures are printed and counted.
#pragma once

#include <cstdio>

inline int failures = 0;

inline void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("not so: %s\n", what);
}
