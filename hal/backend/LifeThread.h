// One thread that lives as long as the process, on which targets are opened, reset and closed.
//
// Why: targets start helper processes (QEMU, a model's host) that must die with the program, by PDEATHSIG;
// and the kernel sends that signal when the *thread* that made the child ends, which in a recorded program
// may be any worker.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tapeback {

/// Runs `work` on the life thread and waits for it. Any thread; calls queue up. The thread blocks all
/// signals: the program's handlers never run on it. `work` must not throw. False if the thread could not be
/// made (errno says why).
bool onLifeThread(llvm::function_ref<void()> work);

} // namespace tapeback
