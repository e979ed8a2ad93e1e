// Foreign files as trajectories: which array is which variable, and which axis is time. Rows are states at one time,
// the resolved variables first, then the closure where the files have it, then forcing. Parameters are read by
// trajectory.
#pragma once

#include <mac/import.hpp>
#include <optional>

#include "data/import/byte_window.hpp"
#include "data/import/foreign_file.hpp"

namespace mac {

enum class Role { trajectory, time, variable };
enum class Part { all, validation, test };  // what a file was given for

class Recordings {
 public:
  Recordings(const std::vector<std::string>& files, const ImportPlan& plan, bool quiet);

  const std::vector<std::string>& names() const { return names_; }  // resolved variables
  const std::vector<std::string>& units() const { return units_; }
  const std::string& time_unit() const { return time_unit_; }
  bool has_times() const { return has_times_; }
  const std::vector<std::string>& forcing_names() const { return forcing_names_; }
  std::size_t closure_size() const { return width_ - names_.size() - forcing_names_.size(); }
  bool has_closure() const { return closure_size() > 0; }
  std::size_t width() const { return width_; }  // numbers of a row

  std::size_t trajectories() const { return trajectories_.size(); }
  std::size_t rows(std::size_t trajectory) const { return trajectories_[trajectory].rows; }
  Part part(std::size_t trajectory) const { return trajectories_[trajectory].part; }
  /// "runs.nc, trajectory 3"
  std::string label(std::size_t trajectory) const;

  void read(std::size_t trajectory, std::size_t first, std::size_t count,
            double* out) const;  // (count, width)
  void read_times(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const;

  /// One number for each of the plan's parameters; Error naming the row where one changes within the trajectory.
  std::vector<double> parameters(std::size_t trajectory) const;

  /// UsageError if an axis whose role was guessed looks like another one.
  void check_axes() const;

 private:
  /// One array, and what its axes are.
  struct Source {
    std::size_t array = 0;
    std::vector<Role> roles;
    std::size_t width = 1;  // variables it holds
    bool guessed = false;
  };
  struct Input {
    std::unique_ptr<ForeignFile> file;
    std::string where;  // "runs.h5" or "runs.h5, run3"
    std::vector<Source> sources;
    std::optional<Source> time;
    std::vector<Source>
        parameters;  // by row, or {trajectory} alone, or without an axis: one for the whole file
    std::unique_ptr<ByteWindow>
        turned;  // rows (trajectory, time, width) of a file that has times before trajectories
    std::size_t first_trajectory, trajectories;  // where its own are among all, and how many
  };
  struct Trajectory {
    std::size_t file = 0, index = 0, first = 0, rows = 0;
    Part part = Part::all;
  };

  void open(const std::string& path, const std::string& group, Part part);
  const ForeignArray& array(const Input& file, const Source& source) const {
    return file.file->arrays()[source.array];
  }
  std::size_t find(const Input& file, const std::string& name, const char* what) const;
  std::vector<std::string> chosen(const Input& file) const;
  Source source(const Input& file, std::size_t index, std::size_t arrays) const;
  Source parameter_source(const Input& file, const std::string& name) const;
  std::vector<Role> given_roles(const Input& file, const ForeignArray& array) const;
  std::string time_name(const Input& file) const;
  void add_trajectories(const Input& file, Part part);
  void add_indexed(const Input& file, std::size_t rows, Part part);
  void read_source(const Trajectory& trajectory, const Input& file, const Source& source, std::size_t first,
                   std::size_t count, double* out, std::size_t stride) const;
  void check_axes(const Input& file, const Source& source) const;
  void turn(Input& file) const;

  ImportPlan plan_;
  bool quiet_;
  std::vector<Input> files_;
  std::vector<Trajectory> trajectories_;
  std::vector<std::string> names_, units_;
  std::string time_unit_ = "1";
  bool has_times_ = false;
  std::size_t width_ = 0;
  std::vector<std::string> forcing_names_;
};

}  // namespace mac
