/* Every call on files of a mount, right and wrong, also from two threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "wharf.h"

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "line %d: %s (errno %d: %s)\n", __LINE__, #condition, errno, wharf_error()); \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* A call that fails with this number, and leaves a line of text. */
#define FAILS(call, number) CHECK((errno = 0, (call)) == -1 && errno == (number) && wharf_error()[0] != 0)

static wharf_mount *mount;

static void *appends(void *name) {
  int file = wharf_fs_open(mount, "/log", O_WRONLY, 0);
  CHECK(file >= 0);
  for (int round = 0; round < 50; round++) CHECK(wharf_fs_append(mount, file, name, 4) >= 0);
  CHECK(wharf_fs_close(mount, file) == 0);
  return NULL;
}

static int counts(void *context, const char *name, uint64_t number, uint32_t kind) {
  CHECK(strlen(name) > 0 && number > 0 && (S_ISREG(kind) || S_ISDIR(kind)));
  ++*(int *)context;
  return 0;
}

static int stops(void *context, const char *name, uint64_t number, uint32_t kind) {
  (void)context, (void)name, (void)number, (void)kind;
  return 7;
}

static void right(void) {
  CHECK(wharf_fs_mkdir(mount, "/d", 0750) == 0);
  int file = wharf_fs_open(mount, "/d/f", O_RDWR | O_CREAT | O_EXCL, 0640);
  CHECK(file >= 0);
  CHECK(wharf_fs_pwrite(mount, file, "hello", 5, 5000) == 5);
  char out[16] = "";
  CHECK(wharf_fs_pread(mount, file, out, sizeof out, 4998) == 7 && memcmp(out, "\0\0hello", 7) == 0);
  CHECK(wharf_fs_pread(mount, file, out, sizeof out, 1 << 30) == 0);
  CHECK(wharf_fs_append(mount, file, "!", 1) == 5005);
  wharf_stat found;
  CHECK(wharf_fs_fstat(mount, file, &found) == 0 && found.bytes == 5006 && found.links == 1);
  CHECK(S_ISREG(found.mode) && (found.mode & 07777) == 0640 && found.modified_ns > 1000000000ull);
  CHECK(wharf_fs_truncate(mount, file, 10) == 0 && wharf_fs_fsync(mount, file) == 0);
  CHECK(wharf_fs_stat(mount, "/d/f", 1, &found) == 0 && found.bytes == 10);
  CHECK(wharf_fs_rename(mount, "/d/f", "/g", 0) == 0);
  int entries = 0;
  CHECK(wharf_fs_list(mount, "/d", counts, &entries) == 0 && entries == 0);
  CHECK(wharf_fs_list(mount, "/", counts, &entries) == 0 && entries == 2);
  CHECK(wharf_fs_list(mount, "/", stops, NULL) == 7);
  CHECK(wharf_fs_close(mount, file) == 0);
  CHECK(wharf_mount_sync(mount) == 0);
}

static void attributes(void) {
  wharf_stat found;
  char out[64];
  CHECK(wharf_fs_link(mount, "/g", "/d/second") == 0);
  CHECK(wharf_fs_stat(mount, "/d/second", 1, &found) == 0 && found.links == 2);
  CHECK(wharf_fs_symlink(mount, "../g", "/d/link") == 0);
  CHECK(wharf_fs_readlink(mount, "/d/link", out, sizeof out) == 4 && memcmp(out, "../g", 4) == 0);
  CHECK(wharf_fs_readlink(mount, "/d/link", out, 2) == 4);
  CHECK(wharf_fs_stat(mount, "/d/link", 0, &found) == 0 && S_ISLNK(found.mode));
  CHECK(wharf_fs_chmod(mount, "/g", 0604) == 0 && wharf_fs_chown(mount, "/g", 12, 34) == 0);
  CHECK(wharf_fs_set_times(mount, "/g", 1000000000000000001ull, 1100000000000000002ull) == 0);
  CHECK(wharf_fs_stat(mount, "/g", 1, &found) == 0 && (found.mode & 07777) == 0604);
  CHECK(found.uid == 12 && found.gid == 34);
  CHECK(found.accessed_ns == 1000000000000000001ull && found.modified_ns == 1100000000000000002ull);
  CHECK(wharf_fs_setxattr(mount, "/g", "user.a", "value", 5) == 0);
  CHECK(wharf_fs_setxattr(mount, "/g", "user.b", "", 0) == 0);
  CHECK(wharf_fs_getxattr(mount, "/g", "user.a", out, sizeof out) == 5 && memcmp(out, "value", 5) == 0);
  CHECK(wharf_fs_getxattr(mount, "/g", "user.a", out, 0) == 5);
  CHECK(wharf_fs_listxattr(mount, "/g", out, sizeof out) == 14);
  CHECK(wharf_fs_removexattr(mount, "/g", "user.b") == 0);
  CHECK(wharf_fs_listxattr(mount, "/g", out, sizeof out) == 7 && strcmp(out, "user.a") == 0);
  FAILS(wharf_fs_getxattr(mount, "/g", "user.b", out, sizeof out), ENODATA);
  FAILS(wharf_fs_removexattr(mount, "/g", NULL), EINVAL);
  FAILS(wharf_fs_readlink(mount, "/g", out, sizeof out), EINVAL);
  FAILS(wharf_fs_link(mount, "/d", "/e"), EPERM);
  FAILS(wharf_fs_symlink(mount, "x", "/g"), EEXIST);
  CHECK(wharf_fs_unlink(mount, "/d/link") == 0 && wharf_fs_unlink(mount, "/d/second") == 0);
}

static void wrong(const char *image) {
  wharf_stat found;
  char byte;
  FAILS(wharf_fs_open(mount, "/none", O_RDONLY, 0), ENOENT);
  FAILS(wharf_fs_open(mount, "/d", O_WRONLY, 0), EISDIR);
  FAILS(wharf_fs_open(mount, "/g", O_RDONLY | 0x40000000, 0), EINVAL);
  FAILS(wharf_fs_open(mount, NULL, O_RDONLY, 0), EINVAL);
  FAILS(wharf_fs_open(NULL, "/g", O_RDONLY, 0), EINVAL);
  FAILS(wharf_fs_mkdir(mount, "/d", 0755), EEXIST);
  FAILS(wharf_fs_rmdir(mount, "/g"), ENOTDIR);
  FAILS(wharf_fs_unlink(mount, "/d"), EISDIR);
  FAILS(wharf_fs_rename(mount, "/g", "/d/x/y", 0), ENOENT);
  FAILS(wharf_fs_rename(mount, "/g", "/d", WHARF_NO_REPLACE), EEXIST);
  FAILS(wharf_fs_rename(mount, "/g", "/h", 99), EINVAL);
  FAILS(wharf_fs_close(mount, 0), EBADF);
  FAILS(wharf_fs_close(mount, -1), EBADF);
  FAILS(wharf_fs_pread(mount, 12345, &byte, 1, 0), EBADF);
  FAILS(wharf_fs_fstat(mount, 3, &found), EBADF);
  FAILS(wharf_fs_stat(mount, "/g", 1, NULL), EINVAL);
  FAILS(wharf_fs_list(mount, "/", NULL, NULL), EINVAL);
  int file = wharf_fs_open(mount, "/g", O_RDWR, 0);
  CHECK(file == 0);
  FAILS(wharf_fs_pread(mount, file, NULL, 1, 0), EINVAL);
  FAILS(wharf_fs_pwrite(mount, file, NULL, 1, 0), EINVAL);
  FAILS(wharf_fs_pwrite(mount, file, "x", 1, UINT64_MAX), EINVAL);
  char *much = calloc(1, (1 << 20) + 1);
  FAILS(wharf_fs_append(mount, file, much, (1 << 20) + 1), EINVAL);
  free(much);
  CHECK(wharf_fs_pread(mount, file, &byte, 0, 0) == 0);
  /* It stays open: who closes the mount closes it. */
  errno = 0;
  CHECK(wharf_mount_open(image) == NULL && errno == EBUSY && wharf_error()[0] != 0);
  FAILS(wharf_mount_make(image, 1 << 26), EEXIST);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  const char *image = arguments[1];
  errno = 0;
  CHECK(wharf_mount_open(image) == NULL && errno == ENOENT);
  CHECK(wharf_mount_make(image, 64 << 20) == 0);
  mount = wharf_mount_open(image);
  CHECK(mount != NULL);
  right();
  attributes();
  wrong(image);
  int log = wharf_fs_open(mount, "/log", O_CREAT | O_WRONLY, 0600);
  CHECK(log >= 0 && wharf_fs_close(mount, log) == 0);
  pthread_t threads[2];
  CHECK(pthread_create(&threads[0], NULL, appends, "one\n") == 0);
  CHECK(pthread_create(&threads[1], NULL, appends, "two\n") == 0);
  CHECK(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
  CHECK(wharf_mount_close(mount) == 0);

  mount = wharf_mount_open(image);
  CHECK(mount != NULL);
  wharf_stat found;
  CHECK(wharf_fs_stat(mount, "/log", 1, &found) == 0 && found.bytes == 400);
  CHECK(wharf_fs_unlink(mount, "/log") == 0 && wharf_fs_unlink(mount, "/g") == 0);
  CHECK(wharf_fs_rmdir(mount, "/d") == 0);
  CHECK(wharf_mount_close(mount) == 0);
  FAILS(wharf_mount_close(NULL), EINVAL);
  puts("all calls on files");
  return 0;
}
