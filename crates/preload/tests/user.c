// A process of root's that becomes somebody else: what it opens from then on it opens as that one, and what is open stays open.
// Argument: "let-in" if the server lets that user in, and its claims are that user's own then.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHER 65534

static int failed = 0;

static void expect(int true, const char *what) {
    if (!true) {
        printf("not so: %s (errno %d)\n", what, errno);
        failed = 1;
    }
}

int main(int count, char **arguments) {
    int is_let_in = count > 1 && strcmp(arguments[1], "let-in") == 0;
    struct stat of;
    char bytes[8];
    mkdir("/where/pub", 0777);
    chmod("/where/pub", 0777);
    int secret = open("/where/secret", O_RDWR | O_CREAT, 0600);
    expect(secret >= 0, "root makes a file");
    expect(write(secret, "secret", 6) == 6, "and writes it");
    expect(setegid(OTHER) == 0 && seteuid(OTHER) == 0, "it becomes another for a while");
    expect(open("/where/secret", O_RDONLY) < 0 && errno == EACCES, "which may not read it");
    expect(seteuid(0) == 0 && setegid(0) == 0, "and root again");
    if (is_let_in) {
        // The claims are those of root's process again, which were asked for anew.
        expect(open("/where/secret", O_RDONLY) >= 0, "which may");
    }
    expect(setgroups(0, NULL) == 0 && setgid(OTHER) == 0 && setuid(OTHER) == 0, "it becomes another for good");
    expect(open("/where/secret", O_RDONLY) < 0 && errno == EACCES, "which may not read root's file");
    expect(open("/where/new", O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES, "nor make one beside it");
    int own = open("/where/pub/own", O_RDWR | O_CREAT | O_EXCL, 0644);
    expect(own >= 0, "it makes one where everybody may");
    expect(fstat(own, &of) == 0 && of.st_uid == OTHER && of.st_gid == OTHER, "which is its own");
    expect(pread(secret, bytes, 6, 0) == 6 && memcmp(bytes, "secret", 6) == 0, "what is open stays open");
    expect(chown("/where/pub/own", 0, 0) < 0 && errno == EPERM, "it gives nothing away");
    expect(unlink("/where/pub/own") == 0, "and removes what is its own");
    printf("done\n");
    return failed;
}
