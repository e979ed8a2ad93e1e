/* A system in a shared library: C, Fortran or any language that can export these functions. `mac --plugin
 * ./libmine.so run experiment.toml ...` makes it known by its name; so do $MAC_PLUGINS and plugin = "libmine.so"
 * in [system]. See docs/your-system.md.
 *
 *   full model     dz/dt = R(z)       z of `size` numbers, the resolved ones first
 *   reduced model  dy/dt = R^(y) + C  y the resolved ones; C = R - R^ in the equations `targets`
 *
 * Functions are called from several threads at once; they keep no state. p are the parameters, in the order of the
 * description.
 */
#ifndef MAC_PLUGIN_H
#define MAC_PLUGIN_H

#ifdef __cplusplus
extern "C" {
#endif

#define MAC_PLUGIN_VERSION 1

#if defined(_WIN32)
#define MAC_PLUGIN_EXPORT __declspec(dllexport)
#else
#define MAC_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* MAC_PLUGIN_VERSION, as the library was compiled. */
MAC_PLUGIN_EXPORT int mac_plugin_version(void);

/* What the system is, as TOML:
 *   name = "duffing"
 *   resolved = ["x", "v"]
 *   size = 4                        # numbers of the full state
 *   targets = ["v"]                 # resolved variables whose equations have a closure; default: all
 *   parameters = ["d", "k"]         # keys of [system]
 *   defaults = [0.2, 0.8]
 *   random = 2                      # numbers that mac_sample takes
 *   warmup_steps = 0
 *   time_unit = "1"
 *   lattices = { u = { edges = "periodic" } }   # u1, u2, ... lie on a ring (docs/inputs.md); default: none
 *   symmetries = ["reflection"]     # of R^ and C, by the names of docs/your-system.md; default: none
 *   diagnostics = ["energy"]        # what mac_diagnostics gives; default: nothing
 *   conserved = ["energy"]          # those of them that the exact flow keeps
 * Equations that depend on time have it among the resolved variables: t with dt/dt = 1, or a phase.
 */
MAC_PLUGIN_EXPORT const char* mac_plugin_system(void);

MAC_PLUGIN_EXPORT void mac_full_rhs(const double* p, const double* z, double* dzdt);
MAC_PLUGIN_EXPORT void mac_reduced_rhs(const double* p, const double* y, double* dydt);
/* An initial state from `random` independent numbers, uniform in [0, 1). */
MAC_PLUGIN_EXPORT void mac_sample(const double* p, const double* uniform, double* z);

/* Each of these may be left out. */

/* gradient = (dR^/dy)^T adjoint. Without it, it comes from mac_reduced_jvp, or from differences. */
MAC_PLUGIN_EXPORT void mac_reduced_vjp(const double* p, const double* y, const double* adjoint,
                                       double* gradient);
/* tangent = (dR^/dy) direction */
MAC_PLUGIN_EXPORT void mac_reduced_jvp(const double* p, const double* y, const double* direction,
                                       double* tangent);
/* Where R^ is stiff: the matrix L, row by row, of R^(y) = L y + N(y), which ETDRK4 takes exactly. */
MAC_PLUGIN_EXPORT void mac_linear_part(const double* p, double* matrix);
/* A number for each of `diagnostics`, of the full state: `mac diagnose` watches them. */
MAC_PLUGIN_EXPORT void mac_diagnostics(const double* p, const double* z, double* values);

#ifdef __cplusplus
}
#endif

#endif
