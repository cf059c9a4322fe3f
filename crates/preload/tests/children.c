// The child of a fork, which may become somebody else, finds nothing of its parent's way to the drive: no memory, no descriptor
// of it, no connection.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// How much this process has of it: lines of its mappings, and descriptors, but for those of files that are open.
static int found(int show) {
    char line[4096], name[64];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (strstr(line, "/memfd:wharf (deleted)")) {
            count++;
            if (show) printf("%s", line);
        }
    }
    fclose(maps);
    for (int fd = 3; fd < 2000; fd++) {
        sprintf(name, "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(name, line, sizeof line - 1);
        if (bytes < 0) continue;
        line[bytes] = 0;
        if (strstr(line, "/memfd:wharf (deleted)") || strstr(line, "socket:")) {
            count++;
            if (show) printf("%d %s\n", fd, line);
        }
    }
    return count;
}

int main(void) {
    int own = open("/where/file", O_RDWR | O_CREAT, 0644);
    if (write(own, "x", 1) != 1 || found(0) == 0) {
        printf("the parent has no way to the drive\n");
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        int left = found(1);
        fflush(stdout);
        _exit(left != 0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("done\n");
    return status != 0 || found(0) == 0;
}
