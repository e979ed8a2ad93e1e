#include "data/import/recordings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <set>
#include <span>

#include "base/nearest.hpp"

namespace mac {

namespace {

constexpr std::size_t rows_at_once = 4096, numbers_at_once = 1 << 18;
const char* const role_names[] = {"trajectory", "time", "variable"};

std::string words(const std::vector<Role>& roles) {
  std::vector<std::string> names;
  for (const Role role : roles) names.push_back(role_names[static_cast<std::size_t>(role)]);
  return fmt::format("{}", fmt::join(names, ","));
}

std::string shape(const ForeignArray& array) { return fmt::format("({})", fmt::join(array.dims, ", ")); }

std::optional<std::size_t> axis_of(const std::vector<Role>& roles, Role role) {
  const auto found = std::ranges::find(roles, role);
  if (found == roles.end()) return std::nullopt;
  return static_cast<std::size_t>(found - roles.begin());
}

/// What a dimension's name says of its role.
std::optional<Role> role_of(std::string name, const std::string& time) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == time || name == "time" || name == "t") return Role::time;
  for (const char* known :
       {"trajectory", "trajectories", "traj", "member", "ensemble", "realization", "sample", "run"})
    if (name == known) return Role::trajectory;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> import_axis_roles() { return {"trajectory", "time", "variable"}; }

Recordings::Recordings(const std::vector<std::string>& files, const ImportPlan& plan, bool quiet)
    : plan_(plan), quiet_(quiet) {
  const auto open_all = [&](const std::vector<std::string>& paths, Part part) {
    for (const std::string& path : paths) {
      if (plan_.group.empty()) {
        open(path, "", part);
      } else {
        for (const std::string& group : foreign_groups(path, plan_.group)) open(path, group, part);
      }
    }
  };
  open_all(files, Part::all);
  open_all(plan.validation_files, Part::validation);
  open_all(plan.test_files, Part::test);
  if (trajectories_.empty()) throw Error("{}: holds no trajectory", files.front());
  if (!plan_.names.empty()) {
    if (plan_.names.size() != names_.size())
      throw UsageError("names: there are {} for {} variables ({})", plan_.names.size(), names_.size(),
                       fmt::join(names_, ", "));
    names_ = plan_.names;
  }
  if (!plan_.units.empty()) {
    if (plan_.units.size() != names_.size())
      throw UsageError("units: there are {} for {} variables ({})", plan_.units.size(), names_.size(),
                       fmt::join(names_, ", "));
    units_ = plan_.units;
  }
  if (!plan_.time_unit.empty()) time_unit_ = plan_.time_unit;
  if (const std::set<std::string> different(names_.begin(), names_.end()); different.size() < names_.size())
    throw UsageError("two variables have one name among {}; give others with --names",
                     fmt::join(names_, ", "));
}

void Recordings::open(const std::string& path, const std::string& group, Part part) {
  Input file{open_foreign(path, group),
             group.empty() ? path : path + ", " + group,
             {},
             std::nullopt,
             {},
             nullptr,
             0,
             0};
  if (file.file->arrays().empty())
    throw Error(
        "{}: holds no array of numbers{}", file.where,
        file.file->others().empty() ? "" : fmt::format("; it has {}", fmt::join(file.file->others(), ", ")));
  const std::vector<std::string> resolved = chosen(file);
  for (const std::string& name : resolved)
    file.sources.push_back(source(file, find(file, name, "variable"), resolved.size()));
  std::vector<std::string> names, units;
  for (const Source& source : file.sources) {
    const ForeignArray& from = array(file, source);
    for (std::size_t v = 0; v < source.width; ++v) {
      names.push_back(axis_of(source.roles, Role::variable) ? fmt::format("{}{}", from.name, v + 1)
                                                            : from.name);
      units.push_back(from.units);
    }
  }
  std::size_t width = names.size();
  for (const std::string& name : plan_.closure) {
    file.sources.push_back(source(file, find(file, name, "closure"), plan_.closure.size()));
    width += file.sources.back().width;
  }
  std::vector<std::string> forcing;
  for (const std::string& name : plan_.forcing) {
    file.sources.push_back(source(file, find(file, name, "forcing"), plan_.forcing.size()));
    const Source& series = file.sources.back();
    for (std::size_t v = 0; v < series.width; ++v)
      forcing.push_back(series.width > 1 ? fmt::format("{}{}", name, v + 1) : name);
    width += series.width;
  }
  for (const std::string& name : plan_.parameters) file.parameters.push_back(parameter_source(file, name));
  if (const std::string time = time_name(file); !time.empty()) {
    const std::size_t index = find(file, time, "time");
    const ForeignArray& times = file.file->arrays()[index];
    if (times.dims.size() > 2)
      throw UsageError("{}: {} has the shape {}; times have one axis, or two: trajectory and time",
                       file.where, time, shape(times));
    file.time = times.dims.size() == 1 ? Source{index, {Role::time}} : source(file, index, 2);
    if (times.dims.size() == 2 && !axis_of(file.time->roles, Role::trajectory))
      file.time->roles = {Role::trajectory, Role::time};
    if (!times.units.empty()) time_unit_ = times.units;
  }
  if (files_.empty()) {
    names_ = names, units_ = units, width_ = width, forcing_names_ = forcing;
    has_times_ = file.time.has_value();
  } else if (names != names_ || width != width_) {
    throw Error("{}: has the variables {}, {} has {}", file.where, fmt::join(names, ", "),
                files_.front().where, fmt::join(names_, ", "));
  } else if (file.time.has_value() != has_times_) {
    throw Error("{}: has {} times, unlike {}", file.where, has_times_ ? "no" : "", files_.front().where);
  }
  files_.push_back(std::move(file));
  files_.back().first_trajectory = trajectories_.size();
  add_trajectories(files_.back(), part);
  files_.back().trajectories = trajectories_.size() - files_.back().first_trajectory;
  turn(files_.back());
}

std::size_t Recordings::find(const Input& file, const std::string& name, const char* what) const {
  const auto& arrays = file.file->arrays();
  const auto found = std::ranges::find(arrays, name, &ForeignArray::name);
  if (found != arrays.end()) return static_cast<std::size_t>(found - arrays.begin());
  std::vector<std::string> names;
  for (const ForeignArray& array : arrays) names.push_back(array.name);
  std::string there =
      fmt::format("{}", fmt::join(std::span(names).first(std::min<std::size_t>(names.size(), 12)), ", "));
  if (names.size() > 12) there += ", ...";
  throw UsageError("{}: has no {} {}; there are {}{}", file.where, what, name, there,
                   suggestion(name, names));
}

/// The variables' arrays: those named; else, of a table, all columns that are nothing else; else the only array
/// there is beside the times.
std::vector<std::string> Recordings::chosen(const Input& file) const {
  if (!plan_.variables.empty()) return plan_.variables;
  const std::string time = time_name(file);
  std::vector<std::string> names;
  std::size_t most_axes = 0;
  const auto is_other = [&](const ForeignArray& array) {
    return array.name == time || array.name == plan_.trajectory ||
           std::ranges::any_of(
               std::array{&plan_.closure, &plan_.forcing, &plan_.parameters},
               [&](const auto* of) { return std::ranges::find(*of, array.name) != of->end(); });
  };
  for (const ForeignArray& array : file.file->arrays())
    if (!is_other(array)) most_axes = std::max(most_axes, array.dims.size());
  for (const ForeignArray& array : file.file->arrays())
    if (!is_other(array) && array.dims.size() == most_axes) names.push_back(array.name);
  if (names.empty()) throw UsageError("{}: holds no variable beside the times", file.where);
  if (most_axes > 1 && names.size() > 1)
    throw UsageError("{}: holds the arrays {}; say with --variables which are the resolved variables",
                     file.where, fmt::join(names, ", "));
  return names;
}

std::string Recordings::time_name(const Input& file) const {
  if (!plan_.time.empty()) return plan_.time;
  if (plan_.dt > 0) return {};
  for (const char* usual : {"time", "t", "Time", "T"})
    if (std::ranges::find(file.file->arrays(), usual, &ForeignArray::name) != file.file->arrays().end() &&
        std::ranges::find(plan_.variables, usual) == plan_.variables.end())
      return usual;
  return {};
}

std::vector<Role> Recordings::given_roles(const Input& file, const ForeignArray& array) const {
  std::vector<Role> roles;
  const auto role_named = [&](const std::string& name) {
    const auto at = std::ranges::find(role_names, name);
    if (at == std::end(role_names))
      throw UsageError("axes: \"{}\" is none of trajectory, time, variable{}", name,
                       suggestion(name, import_axis_roles()));
    return static_cast<Role>(at - std::begin(role_names));
  };
  if (plan_.axes.front().find('=') == std::string::npos) {
    if (plan_.axes.size() != array.dims.size())
      throw UsageError("axes: there are {} for {} of the shape {} in {}", plan_.axes.size(), array.name,
                       shape(array), file.where);
    for (const std::string& name : plan_.axes) roles.push_back(role_named(name));
    return roles;
  }
  for (std::size_t axis = 0; axis < array.dims.size(); ++axis) {
    if (array.axes.size() <= axis || array.axes[axis].empty())
      throw UsageError("axes: {} of {} has axes without names; say {} roles in their order", array.name,
                       file.where, array.dims.size());
    std::optional<Role> role;
    for (const std::string& entry : plan_.axes)
      if (const auto equals = entry.find('='); entry.substr(0, equals) == array.axes[axis])
        role = role_named(entry.substr(std::min(entry.size(), equals + 1)));
    if (!role)
      throw UsageError("axes: the dimension {} of {} in {} has no role", array.axes[axis], array.name,
                       file.where);
    roles.push_back(*role);
  }
  return roles;
}

Recordings::Source Recordings::source(const Input& file, std::size_t index, std::size_t arrays) const {
  const ForeignArray& array = file.file->arrays()[index];
  const std::size_t rank = array.dims.size();
  Source found{index, {}};
  if (!plan_.axes.empty() && rank > 1) {
    found.roles = given_roles(file, array);
  } else if (array.axes.size() == rank && rank > 1 && std::ranges::any_of(array.axes, [&](const auto& name) {
               return role_of(name, plan_.time) == Role::time;
             })) {
    for (const std::string& name : array.axes)
      found.roles.push_back(role_of(name, plan_.time).value_or(Role::variable));
  } else {
    found.guessed = rank > 1;
    if (rank == 1) found.roles = {Role::time};
    if (rank == 2 && arrays == 1) found.roles = {Role::time, Role::variable};
    if (rank == 2 && arrays > 1) found.roles = {Role::trajectory, Role::time};
    if (rank == 3) found.roles = {Role::trajectory, Role::time, Role::variable};
  }
  if (found.roles.empty())
    throw UsageError("{}: {} has the shape {}; save arrays of at most three axes: trajectory, time, variable",
                     file.where, array.name, shape(array));
  for (const Role role : {Role::trajectory, Role::time, Role::variable})
    if (std::ranges::count(found.roles, role) > 1)
      throw UsageError("{}: two axes of {} {} would be the {}", file.where, array.name, shape(array),
                       role_names[static_cast<std::size_t>(role)]);
  if (!axis_of(found.roles, Role::time))
    throw UsageError("{}: none of the axes of {} {} is the time", file.where, array.name, shape(array));
  if (std::ranges::find(array.dims, 0U) != array.dims.end())
    throw Error("{}: {} is empty, its shape is {}", file.where, array.name, shape(array));
  if (const auto axis = axis_of(found.roles, Role::variable)) found.width = array.dims[*axis];
  return found;
}

/// As the first variable is laid out: a number a row of a table, a number a trajectory of arrays, or one number.
Recordings::Source Recordings::parameter_source(const Input& file, const std::string& name) const {
  const std::size_t index = find(file, name, "parameter");
  const ForeignArray& from = file.file->arrays()[index];
  const Source& first = file.sources.front();
  const auto extent = [&](Role role) -> std::size_t {
    const auto axis = axis_of(first.roles, role);
    return axis ? array(file, first).dims[*axis] : 1;
  };
  if (from.dims == Extents{1}) return {index, {}};
  if (from.dims == Extents{extent(Role::trajectory)}) return {index, {Role::trajectory}};
  if (from.dims == Extents{extent(Role::time)} && extent(Role::trajectory) == 1) return {index, {Role::time}};
  if (from.dims == Extents{extent(Role::trajectory), extent(Role::time)})
    return {index, {Role::trajectory, Role::time}};
  throw UsageError(
      "{}: {} has the shape {}; a parameter is one number, or one for each of the {} trajectories, or a "
      "column that "
      "does not change within one",
      file.where, name, shape(from), extent(Role::trajectory));
}

std::vector<double> Recordings::parameters(std::size_t trajectory) const {
  const Trajectory& of = trajectories_[trajectory];
  const Input& file = files_[of.file];
  std::vector<double> values;
  for (std::size_t k = 0; k < file.parameters.size(); ++k) {
    const Source& source = file.parameters[k];
    const bool by_row = axis_of(source.roles, Role::time).has_value();
    double value = std::numeric_limits<double>::quiet_NaN();
    if (!by_row) {
      file.file->read(source.array, {source.roles.empty() ? 0 : of.index}, {1}, &value);
    } else {
      std::vector<double> rows(std::min(rows_at_once, of.rows));
      for (std::size_t first = 0; first < of.rows; first += rows.size()) {
        const std::size_t count = std::min(rows.size(), of.rows - first);
        read_source(of, file, source, first, count, rows.data(), 1);
        if (first == 0) value = rows[0];
        for (std::size_t r = 0; r < count; ++r)
          if (rows[r] != value)
            throw UsageError(
                "{}, row {}: {} goes from {:g} to {:g}: a parameter is constant in a trajectory; a series "
                "that drives "
                "the system is given by --forcing",
                label(trajectory), first + r + 1, plan_.parameters[k], value, rows[r]);
      }
    }
    if (!std::isfinite(value)) throw Error("{}: {} is {}", label(trajectory), plan_.parameters[k], value);
    values.push_back(value);
  }
  return values;
}

void Recordings::add_trajectories(const Input& file, Part part) {
  const auto extent = [&](const Source& source, Role role) -> std::size_t {
    const auto axis = axis_of(source.roles, role);
    return axis ? array(file, source).dims[*axis] : 1;
  };
  const Source& first = file.sources.front();
  const std::size_t count = extent(first, Role::trajectory), rows = extent(first, Role::time);
  for (const Source& source : file.sources)
    if (extent(source, Role::trajectory) != count || extent(source, Role::time) != rows)
      throw Error("{}: {} {} and {} {} have not the same trajectories and times", file.where,
                  array(file, first).name, shape(array(file, first)), array(file, source).name,
                  shape(array(file, source)));
  if (file.time &&
      (extent(*file.time, Role::time) != rows ||
       (axis_of(file.time->roles, Role::trajectory) && extent(*file.time, Role::trajectory) != count)))
    throw Error(
        "{}: {} has the shape {}, but {} has {} times ({}); if its axes are others, say so with --axes",
        file.where, array(file, *file.time).name, shape(array(file, *file.time)), array(file, first).name,
        rows, words(first.roles));
  if (!plan_.trajectory.empty()) return add_indexed(file, rows, part);
  for (std::size_t i = 0; i < count; ++i) trajectories_.push_back({files_.size() - 1, i, 0, rows, part});
}

/// Rows whose number of the trajectory is the same and that lie together are one.
void Recordings::add_indexed(const Input& file, std::size_t rows, Part part) {
  const std::size_t index = find(file, plan_.trajectory, "trajectory");
  if (file.file->arrays()[index].dims != Extents{rows} || array(file, file.sources.front()).dims.size() > 2)
    throw UsageError("{}: {} should have a number for each of the {} rows, its shape is {}", file.where,
                     plan_.trajectory, rows, shape(file.file->arrays()[index]));
  std::set<double> seen;
  std::vector<double> numbers(rows_at_once);
  double last = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t first = 0; first < rows; first += rows_at_once) {
    const std::size_t count = std::min(rows_at_once, rows - first);
    file.file->read(index, {first}, {count}, numbers.data());
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isnan(numbers[i]))
        throw Error("{}: {} is missing in row {}", file.where, plan_.trajectory, first + i + 1);
      if (numbers[i] != last) {
        if (!seen.insert(numbers[i]).second)
          throw Error("{}: the rows of {} {:g} do not lie together: it comes back in row {}; sort the file",
                      file.where, plan_.trajectory, numbers[i], first + i + 1);
        trajectories_.push_back({files_.size() - 1, 0, first + i, 0, part});
        last = numbers[i];
      }
      ++trajectories_.back().rows;
    }
  }
}

std::string Recordings::label(std::size_t trajectory) const {
  const Trajectory& of = trajectories_[trajectory];
  const Input& file = files_[of.file];
  if (file.trajectories == 1) return file.where;
  return fmt::format("{}, trajectory {}", file.where, trajectory - file.first_trajectory + 1);
}

void Recordings::read_source(const Trajectory& trajectory, const Input& file, const Source& source,
                             std::size_t first, std::size_t count, double* out, std::size_t stride) const {
  const std::size_t rank = source.roles.size();
  Extents start(rank), size(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const Role role = source.roles[axis];
    start[axis] = role == Role::trajectory ? trajectory.index
                  : role == Role::time     ? trajectory.first + first
                                           : 0;
    size[axis] = role == Role::trajectory ? 1 : role == Role::time ? count : source.width;
  }
  std::vector<double> block(count * source.width);
  file.file->read(source.array, start, size, block.data());
  const bool time_first = !axis_of(source.roles, Role::variable) ||
                          *axis_of(source.roles, Role::time) < *axis_of(source.roles, Role::variable);
  for (std::size_t t = 0; t < count; ++t)
    for (std::size_t v = 0; v < source.width; ++v)
      out[t * stride + v] = time_first ? block[t * source.width + v] : block[v * count + t];
}

/// A file that has times before trajectories, as time loops write them, would be read from end to end for each
/// trajectory. It is read once, a block of times of all trajectories after the other, into a temporary file.
void Recordings::turn(Input& file) const {
  std::size_t count = 1, rows = 0;
  bool needed = false;
  for (const Source& source : file.sources) {
    const auto trajectory = axis_of(source.roles, Role::trajectory);
    const std::size_t time = *axis_of(source.roles, Role::time);
    rows = array(file, source).dims[time];
    if (trajectory) count = array(file, source).dims[*trajectory];
    needed = needed || (trajectory && time < *trajectory && count > 1);
  }
  if (!needed) return;
  const std::string turned = "turning " + file.where;
  OpenFile target = temporary_file(turned);
  const std::size_t block = std::clamp<std::size_t>(numbers_at_once / (count * width_), 1, rows);
  std::vector<double> out(count * block * width_), in;
  Progress progress(turned, rows, quiet_);
  for (std::size_t first = 0; first < rows; first += block) {
    throw_if_interrupted();
    const std::size_t times = std::min(block, rows - first);
    std::size_t column = 0;
    for (const Source& source : file.sources) {
      const std::size_t rank = source.roles.size();
      Extents start(rank, 0), size(rank), stride(rank);
      for (std::size_t axis = 0; axis < rank; ++axis) {
        const Role role = source.roles[axis];
        if (role == Role::time) start[axis] = first;
        size[axis] = role == Role::trajectory ? count : role == Role::time ? times : source.width;
        stride[axis] = role == Role::trajectory ? times * width_ : role == Role::time ? width_ : 1;
      }
      in.resize(count * times * source.width);
      file.file->read(source.array, start, size, in.data());
      Extents index(rank, 0);
      for (const double value : in) {
        std::size_t to = column;
        for (std::size_t axis = 0; axis < rank; ++axis) to += index[axis] * stride[axis];
        out[to] = value;
        for (std::size_t axis = rank; axis-- > 0 && ++index[axis] == size[axis];) index[axis] = 0;
      }
      column += source.width;
    }
    for (std::size_t i = 0; i < count; ++i) {
      write_temporary(target.get(), (i * rows + first) * width_ * sizeof(double),
                      out.data() + i * times * width_, times * width_ * sizeof(double), turned);
    }
    progress.advance(times);
  }
  file.turned = read_temporary(std::move(target), turned);
}

void Recordings::read(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const {
  const Trajectory& of = trajectories_[trajectory];
  const Input& file = files_[of.file];
  std::size_t column = 0;
  if (file.turned)
    file.turned->read((of.index * of.rows + first) * width_ * sizeof(double), count * width_ * sizeof(double),
                      out);
  else
    for (const Source& source : file.sources) {
      read_source(of, file, source, first, count, out + column, width_);
      column += source.width;
    }
  for (double& value : std::span(out, count * width_))
    if (std::ranges::find(plan_.missing, value) != plan_.missing.end())
      value = std::numeric_limits<double>::quiet_NaN();
}

void Recordings::read_times(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const {
  const Trajectory& of = trajectories_[trajectory];
  const Input& file = files_[of.file];
  if (file.time) return read_source(of, file, *file.time, first, count, out, 1);
  for (std::size_t i = 0; i < count; ++i) out[i] = plan_.dt * static_cast<double>(first + i);
}

void Recordings::check_axes() const {
  for (const Input& file : files_)
    for (const Source& source : file.sources)
      if (source.guessed) check_axes(file, source);
}

/// Along time, neighbours are alike; along trajectories they are not. Where that is the other way round, the axes
/// were guessed wrong.
void Recordings::check_axes(const Input& file, const Source& source) const {
  const ForeignArray& from = array(file, source);
  Extents size;
  for (const std::size_t n : from.dims) size.push_back(std::min<std::size_t>(n, 48));
  std::size_t total = 1;
  for (const std::size_t n : size) total *= n;
  std::vector<double> block(total);
  file.file->read(source.array, Extents(size.size(), 0), size, block.data());

  // sqrt(mean (x_{i+1} - x_i)^2 / (2 variance)) along an axis: near 1 for independent numbers.
  const auto roughness = [&](std::size_t axis) {
    std::size_t step = 1;
    for (std::size_t a = axis + 1; a < size.size(); ++a) step *= size[a];
    double jumps = 0, variance = 0;
    std::size_t pairs = 0, values = 0;
    for (std::size_t begin = 0; begin < total; ++begin) {
      if (begin / step % size[axis] != 0) continue;  // the first of a line along the axis
      double sum = 0, squares = 0, n = 0;
      for (std::size_t i = 0; i < size[axis]; ++i) {
        const double value = block[begin + i * step];
        if (!std::isfinite(value)) continue;
        sum += value, squares += value * value, ++n;
        const double next = i + 1 < size[axis] ? block[begin + (i + 1) * step] : NAN;
        if (std::isfinite(next)) jumps += (next - value) * (next - value), ++pairs;
      }
      if (n > 1) variance += squares - sum * sum / n, values += static_cast<std::size_t>(n);
    }
    if (pairs == 0 || !(variance > 0)) return 0.0;
    return std::sqrt(jumps / static_cast<double>(pairs) / (2 * variance / static_cast<double>(values)));
  };
  const std::size_t time = *axis_of(source.roles, Role::time);
  if (size[time] < 2) return;
  const double along = roughness(time);
  if (along < 0.5) return;
  for (std::size_t axis = 0; axis < size.size(); ++axis) {
    if (axis == time || size[axis] < 8) continue;
    const double other = roughness(axis);
    if (other > 0.25 * along) continue;
    std::vector<Role> better = source.roles;
    std::swap(better[axis], better[time]);
    throw UsageError(
        "{}: {} {} was taken as ({}), but neighbours along axis {} are alike and along axis {} are not, as "
        "if the axes "
        "were swapped: say --axes {}, or --axes {} if it is right",
        file.where, from.name, shape(from), words(source.roles), axis + 1, time + 1, words(better),
        words(source.roles));
  }
}

}  // namespace mac
