/* What GCC's static libstdc++ takes from the glibc that it was built on, and glibc 2.28 does not have. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Since 2.32: whether locks can be left out. They never are. */
char __libc_single_threaded = 0;

/* Since 2.36. */
uint32_t arc4random(void) {
  uint32_t number;
  if (getentropy(&number, sizeof number) != 0) abort();
  return number;
}
