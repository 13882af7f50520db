package claude

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
)

// What the API takes: a picture, and all pictures of a message (its requests may have
// 32 MB, and base64 makes four bytes of three).
const (
	maxImage  = 5 << 20
	maxImages = 20 << 20
)

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type imageBlock struct {
	Type   string      `json:"type"`
	Source imageSource `json:"source"`
}

type imageSource struct {
	Type  string `json:"type"`
	Media string `json:"media_type"`
	Data  []byte `json:"data"` // base64, as encoding/json writes it
}

// userMessage writes a message as a line: pictures as such, other files by their names.
func userMessage(uuid, text string, files []string, priority string) ([]byte, error) {
	var blocks []any
	var named []string
	room := maxImages
	for _, file := range files {
		if b, ok := image(file); ok && len(b.Source.Data) <= room {
			room -= len(b.Source.Data)
			blocks = append(blocks, b)
		} else {
			named = append(named, "- "+file)
		}
	}
	if len(named) > 0 {
		text = strings.TrimSpace(text + "\n\nAttached files:\n" + strings.Join(named, "\n"))
	}
	var content any = text
	if len(blocks) > 0 {
		if text != "" {
			blocks = append(blocks, textBlock{Type: "text", Text: text})
		}
		content = blocks
	}
	return encode(userLine{
		Type: "user", UUID: uuid, Message: chat{Role: "user", Content: content}, Priority: priority,
	})
}

// image reads a picture of a kind that the API takes. What is none, is too large or
// cannot be read is named like any other file: then the agent finds out for itself.
func image(path string) (imageBlock, bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxImage {
		return imageBlock{}, false
	}
	f, err := os.Open(path)
	if err != nil {
		return imageBlock{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	media := mediaType(data)
	if err != nil || media == "" || len(data) > maxImage {
		return imageBlock{}, false
	}
	return imageBlock{Type: "image", Source: imageSource{Type: "base64", Media: media, Data: data}}, true
}

// mediaType tells a picture by how it begins; empty: it is none that the API takes.
func mediaType(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// blocksOf reads a content that may be a string, which has none.
func blocksOf(content json.RawMessage) []block {
	var blocks []block
	_ = json.Unmarshal(content, &blocks) // a string
	return blocks
}
