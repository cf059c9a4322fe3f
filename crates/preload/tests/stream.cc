#include <cstdio>
#include <iostream>
#include <string>
int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::cout << "c++ " << line << std::endl;
        std::printf("c %s\n", line.c_str());
        std::fflush(stdout);
    }
    return 0;
}
