#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **arguments) {
    char room[256] = {0};
    if (syscall(SYS_io_uring_setup, 4, room) < 0) printf("io_uring: %s\n", strerrorname_np(errno));
    // As a program that is linked with liburing finds it.
    int (*init)(unsigned, void *, unsigned) = dlsym(RTLD_DEFAULT, "io_uring_queue_init");
    if (init) printf("liburing: %s\n", strerrorname_np(-init(4, room, 0)));
    int watcher = inotify_init();
    if (inotify_add_watch(watcher, arguments[1], IN_CREATE) < 0) printf("inotify: %s\n", strerrorname_np(errno));
    if (chdir(arguments[1]) == 0 && mkfifo("pipe", 0600) == 0 && open("pipe", O_RDONLY | O_NONBLOCK) < 0)
        printf("pipe: %s\n", strerrorname_np(errno));
    return 0;
}
