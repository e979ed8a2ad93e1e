// Systems as text, [system] and [data], for tests of what the device does with them.
#pragma once

#include <string>
#include <vector>

namespace mac::test {

/// Lorenz '96 with four fast variables a site, as the built-in system has it in these tests.
inline const std::string written_lorenz = R"(kind = 'equations'
name = 'lorenz96_text'
parameters = { N = 8, J = 4, F = 10, h = 1, c = 10, b = 10 }
resolved = ['X[k], k = 1..N, cyclic']
hidden = ['Y[k,j], k = 1..N, j = 1..J, ring']
equations = '''
dX[k] = -X[k-1]*(X[k-2] - X[k+1]) - X[k] + F - h*c/b*sum(j, Y[k,j])
dY[k,j] = -c*b*Y[k,j+1]*(Y[k,j+2] - Y[k,j-1]) - c*Y[k,j] + h*c/b*X[k]
'''
reduced = { Y = 'drop' }
initial = { X = 'normal(F/10, 1)', Y = 'normal(0, 0.01)' }
warmup_steps = 50
symmetries = ['cyclic_shift']
[data]
dt = 5e-3
stride = 2
)";

/// Eleven cells, more than the eight lanes that a smaller system takes; w at its mean over time.
inline const std::string written_cells = R"(kind = 'equations'
name = 'cells'
parameters = { N = 11, D = 0.1, I = 0.5, a = 0.7, b = 0.8, tau = 12.5 }
resolved = ['v[i], i = 1..N, cyclic']
hidden = ['w[i], i = 1..N, cyclic']
equations = '''
dv[i] = v[i] - v[i]^3/3 - w[i] + I + D*(v[i-1] - 2*v[i] + v[i+1])
dw[i] = (v[i] + a - b*w[i])/tau
'''
initial = { v = 'uniform(-2, 2)', w = 'uniform(-0.5, 1.5)' }
[data]
dt = 5e-3
stride = 2
)";

inline const std::string written_grid = R"(kind = 'equations'
name = 'grid'
resolved = ['omega1', 'omega2', 'alpha2']
hidden = ['alpha3', 'V3']
parameters = { M1 = 0.052, M2 = 0.0531, D1 = 0.05, D2 = 0.05, D3 = 0.005, b = 10, P2 = -2, P3 = 3, Q3 = 0.1, V = 0.9 }
equations = '''
g2 = b*V^2*sin(alpha2) + b*V*V3*sin(alpha2 - alpha3) + P2
g3 = b*V*V3*sin(alpha3) - b*V*V3*sin(alpha2 - alpha3) + P3
domega1 = -D1/M1*omega1 + (g2 + g3)/M1
domega2 = -D2/M2*omega2 - g2/M2
dalpha2 = omega2 - omega1
dalpha3 = -omega1 - g3/D3
dV3 = -(2*b*V3 - b*V*cos(alpha3) - b*V*cos(alpha3 - alpha2) + Q3/V3)/5
'''
reduced = { alpha3 = -0.3, V3 = 0.8 }
initial = { omega1 = 'uniform(-0.05, 0.05)', omega2 = 0.01, alpha2 = 'uniform(-0.20, -0.12)', alpha3 = -0.3, V3 = 0.8 }
[data]
dt = 2e-4
stride = 50
)";

/// Forced by a function of time, with a kink and a choice.
inline const std::string written_forced = R"(kind = 'equations'
name = 'forced'
parameters = { omega = 9.0 }
resolved = ['x', 'v']
hidden = ['q']
equations = '''
dx = v
dv = -tanh(x) - 0.1*v*abs(v) + where(x > 0, 0.3*x^2, exp(x) - 1) + sin(omega*t) + q
dq = max(x, v) - 2*q
'''
reduced = { q = 0 }
initial = { x = 'uniform(-1, 1)', v = 'uniform(-1, 1)', q = 0 }
[data]
dt = 5e-3
stride = 2
)";

inline const std::vector<std::string> written_systems{written_lorenz, written_cells, written_grid,
                                                      written_forced};

}  // namespace mac::test
