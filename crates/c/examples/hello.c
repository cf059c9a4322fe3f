/* After crates/c/install PREFIX:
 *
 *   export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
 *   cc hello.c $(pkg-config --cflags --libs wharf) && ./a.out FILE
 */
#include <stdio.h>

#include "wharf.h"

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, wharf_error());
  return 1;
}

int main(int count, char **arguments) {
  if (count != 2) return fprintf(stderr, "usage: hello FILE\n"), 2;
  wharf_cache *cache = wharf_cache_new(NULL);
  if (cache == NULL) return fail("cache");
  wharf_file *file = wharf_open(cache, arguments[1], WHARF_CREATE);
  if (file == NULL) return fail("open");

  if (wharf_write_at(file, "any offset, any length", 22, 5000) != 0) return fail("write");
  if (wharf_sync(file) != 0) return fail("sync"); /* durable from here on */

  wharf_page page;
  if (wharf_pin(file, 5000, &page) != 0) return fail("pin");
  printf("%.22s\n", (const char *)page.data + (5000 - page.offset));
  wharf_unpin(&page);

  if (wharf_close(file) != 0) return fail("close");
  wharf_cache_free(cache);
  return 0;
}
