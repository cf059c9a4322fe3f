// A program with a `malloc` of its own, as rustc, Redis and MariaDB have jemalloc: it asks for paths and files while it makes itself ready, and who asks it for memory then
// waits for ever.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static enum { NOTHING, MAKING, READY } state;
static char arena[64 << 20] __attribute__((aligned(64)));
static size_t used;

static void make_ready(void) {
  char text[100];
  struct stat found;
  state = MAKING;
  readlink("/etc/malloc.conf", text, sizeof text);
  stat("/etc/malloc.conf", &found);
  access("/etc/malloc.conf", R_OK);
  int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  read(file, text, sizeof text);
  close(file);
  state = READY;
}

void *malloc(size_t bytes) {
  static const char wrong[] = "asked for memory while it makes itself ready\n";
  if (state == MAKING) {
    syscall(SYS_write, 2, wrong, sizeof wrong - 1);
    _exit(9);
  }
  if (state == NOTHING) make_ready();
  // The size stands before each piece, for `realloc`.
  size_t at = __atomic_fetch_add(&used, (bytes + 64 + 63) & ~(size_t)63, __ATOMIC_RELAXED);
  if (at + bytes + 64 > sizeof arena) return NULL;
  *(size_t *)(arena + at) = bytes;
  return arena + at + 64;
}

void free(void *piece) { (void)piece; }

void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); } // the arena is zeros

void *realloc(void *before, size_t bytes) {
  void *piece = malloc(bytes);
  if (piece && before) {
    size_t old = *(size_t *)((char *)before - 64);
    memcpy(piece, before, old < bytes ? old : bytes);
  }
  return piece;
}

static void *aligned(size_t alignment, size_t bytes) {
  char *piece = malloc(bytes + alignment + 64);
  if (!piece) return NULL;
  size_t over = (size_t)piece % alignment;
  char *start = over ? piece + alignment - over : piece;
  if (start != piece) *(size_t *)(start - 64) = bytes;
  return start;
}

void *memalign(size_t alignment, size_t bytes) { return aligned(alignment < 64 ? 64 : alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void **piece, size_t alignment, size_t bytes) {
  *piece = memalign(alignment, bytes);
  return *piece ? 0 : ENOMEM;
}

int main(int count, char **arguments) {
  char path[200], text[100] = "";
  snprintf(path, sizeof path, "%s/file", arguments[1]);
  int file = open(path, O_RDWR | O_CREAT, 0644);
  write(file, "through an allocator of its own", 31);
  pread(file, text, 99, 8);
  printf("%s\n", text);
  return close(file);
}
