/** Bytes that are here already, as a file of the reader's. */
export function saveBlob(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name.split("/").at(-1) || "file";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
