// The program in the background, to be stopped or killed.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace mac::test {

class Process {
 public:
  /// `standard_output`, if given, is the file it writes to.
  explicit Process(std::vector<std::string> arguments, int standard_output = -1) {
    id_ = fork();
    if (id_ != 0) return;
    if (standard_output >= 0) dup2(standard_output, STDOUT_FILENO);
    std::string program = MAC_PROGRAM;
    std::vector<char*> pointers{program.data()};
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    execv(MAC_PROGRAM, pointers.data());
    _exit(127);
  }
  void send(int signal) const { kill(id_, signal); }
  int wait() const {  // as a shell says it
    int status = 0;
    waitpid(id_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_;
};

}  // namespace mac::test
