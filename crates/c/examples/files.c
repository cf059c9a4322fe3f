/* After crates/c/install PREFIX:
 *
 *   export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
 *   cc files.c $(pkg-config --cflags --libs wharf) && ./a.out IMAGE
 */
#include <fcntl.h>
#include <stdio.h>

#include "wharf.h"

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, wharf_error());
  return 1;
}

static int show(void *context, const char *name, uint64_t number, uint32_t kind) {
  (void)context, (void)number, (void)kind;
  puts(name);
  return 0;
}

int main(int count, char **arguments) {
  if (count != 2) return fprintf(stderr, "usage: files IMAGE\n"), 2;
  if (wharf_mount_make(arguments[1], 64 << 20) != 0) return fail("make");
  wharf_mount *mount = wharf_mount_open(arguments[1]);
  if (mount == NULL) return fail("open");

  if (wharf_fs_mkdir(mount, "/notes", 0755) != 0) return fail("mkdir");
  int file = wharf_fs_open(mount, "/notes/first", O_RDWR | O_CREAT, 0644);
  if (file < 0) return fail("open a file");
  if (wharf_fs_pwrite(mount, file, "in the drive\n", 13, 0) != 13) return fail("write");
  if (wharf_fs_fsync(mount, file) != 0) return fail("sync"); /* durable from here on */
  if (wharf_fs_close(mount, file) != 0) return fail("close a file");

  if (wharf_fs_list(mount, "/notes", show, NULL) != 0) return fail("list");
  return wharf_mount_close(mount) == 0 ? 0 : fail("close");
}
