#include <stdio.h>
int main(int count, char **arguments) {
    printf("hello %s\n", count > 1 ? arguments[1] : "");
    return 0;
}
