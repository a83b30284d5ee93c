package gitsync

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Budgets for the objects of one pack. A pack of some kilobytes can declare objects of gigabytes,
// and git has an object that is a delta in memory, with its base.
const (
	maxObjectSize = 512 << 20
	maxPackSize   = 8 << 30
	// maxLooseSize is for packs whose objects are stored one by one: git keeps all of their
	// trees in memory.
	maxLooseSize = 256 << 20
)

// sizeError is a pack over a budget.
type sizeError struct {
	what         string
	size, budget uint64
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("%s of %d MiB: at most %d MiB are fetched", e.what, e.size>>20, e.budget>>20)
}

// Types of the objects in a pack (gitformat-pack(5)).
const (
	offsetDelta    = 6
	referenceDelta = 7
)

var errPack = errors.New("invalid pack")

// packSize returns the number of objects of a pack and the sum of their sizes, as declared. It
// stops with a [*sizeError] before it is over a budget. An object's content is not kept, and not
// read beyond its declared size.
func packSize(pack io.Reader, idLength int) (objects uint32, total uint64, err error) {
	r := bufio.NewReaderSize(pack, 64<<10)
	head := make([]byte, 12)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:4]) != "PACK" {
		return 0, 0, errors.New("not a pack")
	}
	objects = binary.BigEndian.Uint32(head[8:])
	var content io.ReadCloser
	inflated := bufio.NewReaderSize(nil, 4<<10)
	for range objects {
		size, isDelta, err := objectHeader(r, idLength)
		if err == nil && size > maxObjectSize {
			return objects, total, &sizeError{"an object", size, maxObjectSize}
		}
		if err == nil {
			content, err = nextContent(content, r)
		}
		if err != nil {
			return objects, total, fmt.Errorf("%w: %w", errPack, err)
		}
		limited := &io.LimitedReader{R: content, N: int64(size) + 1} //nolint:gosec // checked above
		inflated.Reset(limited)
		result := size
		if isDelta {
			if result, err = deltaResult(inflated); err != nil {
				return objects, total, fmt.Errorf("%w: %w", errPack, err)
			}
		}
		if result > maxObjectSize {
			return objects, total, &sizeError{"an object", result, maxObjectSize}
		}
		if total += result; total > maxPackSize {
			return objects, total, &sizeError{"commits", total, maxPackSize}
		}
		if _, err = io.Copy(io.Discard, inflated); err == nil && limited.N != 1 {
			err = errors.New("a wrong size")
		}
		if err != nil {
			return objects, total, fmt.Errorf("%w: %w", errPack, err)
		}
	}
	return objects, total, nil
}

// nextContent returns a reader of the compressed content that follows, which replaces that of the object before.
func nextContent(last io.ReadCloser, r *bufio.Reader) (io.ReadCloser, error) {
	if last == nil {
		return zlib.NewReader(r)
	}
	return last, last.(zlib.Resetter).Reset(r, nil)
}

// objectHeader reads the header of an object, up to its compressed content.
func objectHeader(r *bufio.Reader, idLength int) (size uint64, isDelta bool, err error) {
	b, err := r.ReadByte()
	if err != nil {
		return 0, false, err
	}
	kind := b >> 4 & 7
	size = uint64(b & 15)
	if b&0x80 != 0 {
		more, err := binary.ReadUvarint(r)
		if err != nil || more > 1<<58 {
			return 0, false, errors.Join(errPack, err)
		}
		size |= more << 4
	}
	switch kind {
	case offsetDelta:
		_, err = binary.ReadUvarint(r) // its value differs, its end does not
	case referenceDelta:
		_, err = r.Discard(idLength)
	}
	return size, kind == offsetDelta || kind == referenceDelta, err
}

// deltaResult reads the size of the object that a delta makes, which follows that of its base.
func deltaResult(r *bufio.Reader) (uint64, error) {
	if _, err := binary.ReadUvarint(r); err != nil {
		return 0, err
	}
	return binary.ReadUvarint(r)
}
