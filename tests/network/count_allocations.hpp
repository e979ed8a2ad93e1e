// How often operator new was called in this test program.
#pragma once

namespace mac::test {

long allocation_count();

}  // namespace mac::test
