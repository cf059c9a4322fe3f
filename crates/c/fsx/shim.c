/* Sends the calls that fsx makes on one file to the page cache, by LD_PRELOAD. For that program: it covers what
 * fsx calls, and fails on what it does not know rather than let a call pass by the cache.
 *
 * WHARF_FSX_FILE: the file. WHARF_FSX_BYTES: memory of the cache. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wharf.h"

static wharf_cache *cache;
static wharf_file *file; /* the one that is open, */
static int number = -1;  /* by this descriptor */
static __thread int inside; /* the cache opens the file itself */

static void die(const char *what) {
  fprintf(stderr, "shim: %s: %s\n", what, wharf_error());
  abort();
}

/* The system's function of this name. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void take(int descriptor, const char *path) {
  if (file != NULL) die("the file is open twice");
  inside = 1;
  if (cache == NULL) {
    const char *bytes = getenv("WHARF_FSX_BYTES");
    wharf_cache_options options;
    wharf_cache_options_init(&options);
    options.memory_bytes = bytes ? strtoull(bytes, NULL, 10) : 64 * WHARF_PAGE_BYTES;
    cache = wharf_cache_new(&options);
    if (cache == NULL) die("cache");
  }
  file = wharf_open(cache, path, 0);
  if (file == NULL) die("open");
  inside = 0;
  number = descriptor;
}

static void give(void) {
  inside = 1;
  if (file != NULL && wharf_close(file) != 0) die("close");
  inside = 0;
  file = NULL;
  number = -1;
}

/* What is dirty is written when the program ends; and the statistics say that the cache was used. */
__attribute__((destructor)) static void finish(void) {
  wharf_cache_statistics did;
  give();
  if (cache == NULL || wharf_cache_get_statistics(cache, &did) != 0) return;
  fprintf(stderr, "shim: %lu reads, %lu writes, %lu syncs; %lu evictions, %lu write-backs\n", did.reads, did.writes,
          did.syncs, did.evictions, did.write_backs);
}

static int is_ours(int descriptor) { return descriptor == number && descriptor >= 0 && !inside; }

int open64(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  int descriptor = REAL(open64)(path, flags, mode);
  const char *ours = getenv("WHARF_FSX_FILE");
  if (descriptor >= 0 && !inside && ours != NULL && strcmp(path, ours) == 0) take(descriptor, path);
  return descriptor;
}

int close(int descriptor) {
  if (is_ours(descriptor)) give();
  return REAL(close)(descriptor);
}

ssize_t pread64(int descriptor, void *out, size_t count, off64_t offset) {
  if (!is_ours(descriptor)) return REAL(pread64)(descriptor, out, count, offset);
  return wharf_read_at(file, out, count, (uint64_t)offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t count, off64_t offset) {
  if (!is_ours(descriptor)) return REAL(pwrite64)(descriptor, data, count, offset);
  return wharf_write_at(file, data, count, (uint64_t)offset) == 0 ? (ssize_t)count : -1;
}

int ftruncate64(int descriptor, off64_t bytes) {
  if (!is_ours(descriptor)) return REAL(ftruncate64)(descriptor, bytes);
  return wharf_truncate(file, (uint64_t)bytes);
}

int fsync(int descriptor) { return is_ours(descriptor) ? wharf_sync(file) : REAL(fsync)(descriptor); }

int fdatasync(int descriptor) { return is_ours(descriptor) ? wharf_sync_data(file) : REAL(fdatasync)(descriptor); }

int posix_fadvise64(int descriptor, off64_t offset, off64_t bytes, int advice) {
  if (!is_ours(descriptor)) return REAL(posix_fadvise64)(descriptor, offset, bytes, advice);
  if (advice != POSIX_FADV_WILLNEED && advice != POSIX_FADV_DONTNEED) return 0;
  uint64_t most = bytes == 0 ? UINT64_MAX : (uint64_t)bytes;
  uint32_t ours = advice == POSIX_FADV_WILLNEED ? WHARF_WILL_NEED : WHARF_DONT_NEED;
  return wharf_advise(file, (uint64_t)offset, most, ours) == 0 ? 0 : errno;
}

int posix_fadvise(int descriptor, off_t offset, off_t bytes, int advice) {
  return posix_fadvise64(descriptor, offset, bytes, advice);
}

off64_t lseek64(int descriptor, off64_t offset, int whence) {
  if (!is_ours(descriptor)) return REAL(lseek64)(descriptor, offset, whence);
  if (whence != SEEK_END) die("only the end of the file is known to lseek");
  return (off64_t)wharf_length(file) + offset;
}

int fstat64(int descriptor, struct stat64 *out) {
  int outcome = REAL(fstat64)(descriptor, out);
  if (outcome == 0 && is_ours(descriptor)) out->st_size = (off64_t)wharf_length(file);
  return outcome;
}

int statx(int descriptor, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
  int outcome = REAL(statx)(descriptor, path, flags, mask, out);
  int is_of_descriptor = path[0] == 0 && (flags & AT_EMPTY_PATH);
  if (outcome == 0 && is_of_descriptor && is_ours(descriptor)) out->stx_size = wharf_length(file);
  return outcome;
}
