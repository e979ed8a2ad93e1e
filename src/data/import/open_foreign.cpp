#include <fstream>
#include <mac/error.hpp>

#include "data/import/foreign_file.hpp"
#include "io/input_file.hpp"

namespace mac {

std::unique_ptr<ForeignFile> open_foreign(const std::string& path, const std::string& group) {
  const FileKind kind = file_kind(path);
  std::string start(8, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(in.gcount()));
  if (start.empty()) throw Error("{}: is empty", path);

  if (kind == FileKind::hdf5) return open_foreign_hdf5(path, group);
  if (start.starts_with("\x93NUMPY")) return open_npy(path);
  if (start.starts_with("PK\x03\x04")) return open_npz(path);
  if (start.starts_with("CDF")) return open_classic_netcdf(path);
  if (start.starts_with("PAR1"))
    throw UsageError("{}: is a Parquet file, which is not read; save it as CSV, NumPy or HDF5", path);
  if (start.starts_with("\x1f\x8b")) throw UsageError("{}: is compressed by gzip; unpack it first", path);
  if (start.starts_with("\x80"))
    throw UsageError("{}: is a pickle, which is not read; save it with numpy.save", path);
  if (start.starts_with("MATLAB"))
    throw UsageError("{}: is an old MATLAB file, which is not read; save it with -v7.3, which is HDF5", path);
  if (kind == FileKind::text) return open_csv(path);
  throw UsageError("{}: is {}, expected NumPy (.npy, .npz), HDF5, NetCDF or CSV", path, description(kind));
}

}  // namespace mac
