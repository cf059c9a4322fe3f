/* Every call of wharf.h, beside an array of bytes: alone, and from several threads. Usage: use FILE */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "wharf.h"

enum { THREADS = 4, PART = 200 * 1000, STEPS = 3000, PIECE = 9000 };

#define CHECK(what)                                                                                              \
  do {                                                                                                           \
    if (!(what)) {                                                                                               \
      fprintf(stderr, "%s:%d: %s: errno %d, '%s'\n", __FILE__, __LINE__, #what, errno, wharf_error());           \
      exit(1);                                                                                                   \
    }                                                                                                            \
  } while (0)

/* The call fails with this number and says this. */
#define FAILS(what, number, text)                                                                                \
  do {                                                                                                           \
    errno = 0;                                                                                                   \
    CHECK(what);                                                                                                 \
    CHECK(errno == (number));                                                                                    \
    CHECK(strstr(wharf_error(), (text)) != NULL);                                                                \
  } while (0)

static uint32_t next(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  return *state ^= *state << 5;
}

struct worker {
  const wharf_file *file;
  uint32_t number;
};

/* Writes and reads at random in a part of the file that is this thread's alone. */
static void *work(void *argument) {
  const struct worker *worker = argument;
  uint64_t start = (uint64_t)worker->number * PART;
  uint32_t state = 77 + worker->number;
  unsigned char *model = calloc(1, PART), piece[PIECE];
  CHECK(model != NULL);
  CHECK(wharf_write_at(worker->file, model, PART, start) == 0);
  for (int step = 0; step < STEPS; step++) {
    uint32_t at = next(&state) % PART, count = next(&state) % PIECE;
    count = count < PART - at ? count : PART - at;
    if (next(&state) % 2) {
      memset(model + at, (int)(state & 255), count);
      CHECK(wharf_write_at(worker->file, model + at, count, start + at) == 0);
    } else {
      CHECK(wharf_read_at(worker->file, piece, count, start + at) == (int64_t)count);
      CHECK(memcmp(piece, model + at, count) == 0);
    }
  }
  CHECK(wharf_sync_data(worker->file) == 0);
  free(model);
  return NULL;
}

static void threads(const wharf_file *file) {
  pthread_t threads[THREADS];
  struct worker workers[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){file, i};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void pins(const wharf_file *file) {
  wharf_page page;
  char out[5];
  CHECK(wharf_write_at(file, "hello", 5, 4096 + 10) == 0);
  CHECK(wharf_pin(file, 5000, &page) == 0);
  CHECK(page.offset == 4096 && memcmp(page.data + 10, "hello", 5) == 0);
  CHECK(wharf_page_read(&page, 10, out, 5) == 0 && memcmp(out, "hello", 5) == 0);
  FAILS(wharf_page_read(&page, 4095, out, 2) == -1, EINVAL, "do not lie within a page");
  wharf_unpin(&page);
  CHECK(page.data == NULL);
  wharf_unpin(&page);
  FAILS(wharf_page_read(&page, 0, out, 1) == -1, EINVAL, "no page is pinned");
  FAILS(wharf_pin(file, 1 << 30, &page) == -1, ENXIO, "ends at byte");
  CHECK(page.data == NULL);
}

/* Memory that is not there is an error, and not the end of the program. */
static void memory(void) {
  wharf_cache_options options;
  wharf_cache_options_init(&options);
  options.memory_bytes = (UINT64_C(1) << 42) - WHARF_PAGE_BYTES;
  FAILS(wharf_cache_new(&options) == NULL, ENOMEM, "memory");
  struct rlimit before, less;
  CHECK(getrlimit(RLIMIT_AS, &before) == 0);
  less = before;
  less.rlim_cur = (rlim_t)2 << 30;
  CHECK(setrlimit(RLIMIT_AS, &less) == 0);
  for (uint32_t i = WHARF_CLOCK; i <= WHARF_W_TINYLFU; i++) {
    options.memory_bytes = UINT64_C(4) << 30;
    options.replacement = i;
    FAILS(wharf_cache_new(&options) == NULL, ENOMEM, "memory");
  }
  CHECK(setrlimit(RLIMIT_AS, &before) == 0);
}

static void mistakes(wharf_cache *cache, const char *path) {
  wharf_cache_options options;
  wharf_cache_options_init(&options);
  options.memory_bytes = 100;
  FAILS(wharf_cache_new(&options) == NULL, EINVAL, "too small");
  wharf_cache_options_init(&options);
  options.replacement = 77;
  FAILS(wharf_cache_new(&options) == NULL, EINVAL, "77 is no replacement");
  memory();
  FAILS(wharf_open(cache, "/no/such/folder/file", WHARF_CREATE) == NULL, ENOENT, "/no/such/folder");
  FAILS(wharf_open(NULL, path, 0) == NULL, EINVAL, "the cache is NULL");
  FAILS(wharf_open(cache, NULL, 0) == NULL, EINVAL, "the path is NULL");
  FAILS(wharf_open(cache, path, 64) == NULL, EINVAL, "unknown flags");
  FAILS(wharf_sync(NULL) == -1, EINVAL, "the file is NULL");
  FAILS(wharf_close(NULL) == -1, EINVAL, "the file is NULL");
  FAILS(wharf_cache_get_statistics(cache, NULL) == -1, EINVAL, "statistics");
  wharf_file *file = wharf_open(cache, path, WHARF_READ_ONLY);
  CHECK(file != NULL);
  FAILS(wharf_write_at(file, "x", 1, 0) == -1, EBADF, "read only");
  FAILS(wharf_read_at(file, NULL, 1, 0) == -1, EINVAL, "NULL");
  FAILS(wharf_advise(file, 0, 1, 9) == -1, EINVAL, "9 is no advice");
  CHECK(wharf_read_at(file, NULL, 0, 0) == 0);
  CHECK(wharf_close(file) == 0);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  const char *path = arguments[1];
  CHECK(strcmp(wharf_error(), "") == 0);
  wharf_cache_options options;
  wharf_cache_options_init(&options);
  CHECK(options.memory_bytes == 64 << 20);
  options.memory_bytes = 64 * WHARF_PAGE_BYTES;
  options.replacement = WHARF_S3_FIFO;
  wharf_cache *cache = wharf_cache_new(&options);
  CHECK(cache != NULL);
  wharf_file *file = wharf_open(cache, path, WHARF_CREATE);
  CHECK(file != NULL && wharf_length(file) == 0);
  threads(file);
  CHECK(wharf_length(file) == THREADS * PART);
  pins(file);
  CHECK(wharf_truncate(file, 10000) == 0);
  wharf_file *twin = wharf_dup(file);
  CHECK(twin != NULL && wharf_length(twin) == 10000);
  CHECK(wharf_advise(twin, 0, 10000, WHARF_DONT_NEED) == 0 && wharf_advise(twin, 0, 10000, WHARF_WILL_NEED) == 0);
  char out[8];
  CHECK(wharf_read_at(twin, out, 8, 9996) == 4);
  CHECK(wharf_sync_range(file, 0, 4096) == 0 && wharf_sync(file) == 0 && wharf_close(twin) == 0);
  wharf_cache_statistics did;
  CHECK(wharf_cache_get_statistics(cache, &did) == 0);
  CHECK(did.writes > THREADS && did.evictions > 0 && did.write_backs > 0 && did.hits <= did.pages && did.dirty_pages == 0);
  wharf_cache_free(cache); /* the file keeps it alive */
  CHECK(wharf_write_at(file, "end", 3, 0) == 0 && wharf_close(file) == 0);
  cache = wharf_cache_new(NULL);
  CHECK(cache != NULL);
  mistakes(cache, path);
  wharf_cache_free(cache);
  wharf_cache_free(NULL);
  puts("all as expected");
  return 0;
}
